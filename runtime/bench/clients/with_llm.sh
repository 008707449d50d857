#!/bin/sh
# A session of the llm command line: an answer, its continuation, a tool, an answer in a form.
# Usage: with_llm.sh URL LLM-PROGRAM EMPTY-FOLDER
set -eu
LLM_USER_PATH=$3
OPENAI_API_KEY=none
export LLM_USER_PATH OPENAI_API_KEY
cat > "$3/extra-openai-models.yaml" <<END
- model_id: ours
  model_name: smollm2
  api_base: "$1"
  supports_tools: true
  supports_schema: true
END
"$2" -m ours 'Say hello in three words.' -o max_tokens 20 > /dev/null
"$2" -c 'And now goodbye.' -o max_tokens 20 > /dev/null
"$2" -m ours --no-stream 'Say hello.' -o max_tokens 10 > /dev/null
"$2" -m ours --functions 'def multiply(x: int, y: int) -> int:
    "Multiply two numbers."
    return x * y' 'What is 34 times 78?' -o max_tokens 40 > /dev/null
form=$("$2" -m ours --schema 'city, days int' 'Three days in Oslo.')
case $form in *'"city"'*'"days"'*) ;; *) echo "no form: $form" >&2; exit 1 ;; esac
echo "form: $form; calls logged: $("$2" logs count 2>/dev/null || "$2" logs list -n 0 --json | grep -c '"id"')"
