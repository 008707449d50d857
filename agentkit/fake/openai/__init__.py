"""OpenAI's two APIs: Responses, and Chat with the providers that speak it too."""
