// How clients are told to use this server. Pure text; `address` without a slash at its end.

const NO_KEY = 'none';

export function snippets({ address, model, needsKey }) {
  const key = needsKey ? 'YOUR_KEY' : NO_KEY;
  const v1 = `${address}/v1`;
  const curlKey = needsKey ? ` \\\n  -H 'Authorization: Bearer ${key}'` : '';
  return [
    { name: 'curl', language: 'sh', text: `curl -N ${v1}/chat/completions${curlKey} \\
  -H 'Content-Type: application/json' \\
  -d '{
    "messages": [{"role": "user", "content": "Hello!"}],
    "stream": true
  }'` },
    { name: 'openai', title: 'OpenAI SDK (Python)', language: 'python', text: `from openai import OpenAI

client = OpenAI(base_url="${v1}", api_key="${key}")
reply = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(reply.choices[0].message.content)
print(reply.usage.prompt_tokens_details.cached_tokens, "tokens were not read again")` },
    { name: 'anthropic', title: 'Anthropic SDK (Python)', language: 'python',
      text: `from anthropic import Anthropic

client = Anthropic(base_url="${address}", api_key="${key}")
reply = client.messages.create(
    model="${model}",
    max_tokens=1024,
    messages=[{"role": "user", "content": "Hello!"}],
)
print(reply.content[-1].text)` },
    { name: 'Claude Code', language: 'sh', text: `export ANTHROPIC_BASE_URL=${address}
export ANTHROPIC_AUTH_TOKEN=${key}
export ANTHROPIC_MODEL=${model}
export ANTHROPIC_SMALL_FAST_MODEL=${model}
claude` },
    { name: 'Codex', language: 'toml', note: 'In ~/.codex/config.toml' +
      `${needsKey ? '; the key comes from the environment variable HOLDFAST_KEY' : ''}.`,
    text: `model = "${model}"
model_provider = "holdfast"

[model_providers.holdfast]
name = "holdfast"
base_url = "${v1}"
wire_api = "responses"${needsKey ? '\nenv_key = "HOLDFAST_KEY"' : ''}` },
    { name: 'Cline', language: 'text', note: 'Settings, API provider: OpenAI Compatible.',
      text: `Base URL   ${v1}
API key    ${key}
Model ID   ${model}` },
    { name: 'OpenCode', language: 'json', note: 'In opencode.json.', text: JSON.stringify({
      $schema: 'https://opencode.ai/config.json',
      provider: { holdfast: { npm: '@ai-sdk/openai-compatible', name: 'holdfast',
        options: { baseURL: v1, ...(needsKey ? { apiKey: key } : {}) },
        models: { [model]: { name: model } } } },
      model: `holdfast/${model}` }, null, 2) },
    { name: 'Continue', language: 'yaml', note: 'In ~/.continue/config.yaml.', text: `models:
  - name: holdfast
    provider: openai
    model: ${model}
    apiBase: ${v1}
    apiKey: ${key}
    roles: [chat, edit, apply]` },
    { name: 'Open WebUI', language: 'sh', note: 'Or in its settings: Connections, OpenAI API. From a ' +
      'container the host is another address than 127.0.0.1.',
    text: `export OPENAI_API_BASE_URL=${v1}
export OPENAI_API_KEY=${key}
open-webui serve` },
  ];
}
