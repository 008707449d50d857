"""What clients see when the engine stops under them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import openai
import pytest

from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import serving
from tests.runtime.service.scripted import Script, scripted_model


@pytest.fixture
def stoppable(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[tuple[str, ChatService]]:
    with scripted_model(*smollm2_text, Script(smollm2_text[0], ANSWERS)) as loaded:
        service = ChatService(loaded)
        with serving(service) as (url, _):
            yield url, service


def test_a_running_stream_ends_with_an_error_and_later_requests_with_503(
    stoppable: tuple[str, ChatService],
) -> None:
    url, service = stoppable
    messages = [{"role": "user", "content": "novel"}]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(
            model="scripted",
            messages=messages,  # type: ignore[arg-type]
            stream=True,
        )
        next(stream)
        service.close()
        with pytest.raises(openai.APIError, match="the engine was closed"):
            list(stream)

        with pytest.raises(openai.InternalServerError) as raised:
            client.chat.completions.create(model="scripted", messages=messages)  # type: ignore[call-overload]

    assert (raised.value.status_code, raised.value.code) == (503, "engine_stopped")
    assert httpx2.get(f"{url}/health").status_code == 503
