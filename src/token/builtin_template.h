#ifndef HOLDFAST_TOKEN_BUILTIN_TEMPLATE_H_
#define HOLDFAST_TOKEN_BUILTIN_TEMPLATE_H_

#include <string_view>

namespace holdfast {

// For files without a chat template: ChatML with think blocks, tools and tool results in the way of
// the Qwen family.
inline constexpr std::string_view kBuiltinChatTemplate = R"jinja(
{%- macro text_of(content) -%}
{%- if content is string -%}
{{- content | trim -}}
{%- elif content is sequence and content is not none -%}
{%- for part in content -%}
{%- if part is string -%}{{- part -}}{%- elif part.text is string -%}{{- part.text -}}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(system='', first=0) -%}
{%- if messages and messages[0].role in ['system', 'developer'] -%}
{%- set ns.system = text_of(messages[0].content) -%}
{%- set ns.first = 1 -%}
{%- endif -%}
{%- if tools -%}
{{- '<|im_start|>system\n# Tools\n\nYou may call the functions below.\n\n<tools>\n' -}}
{%- for tool in tools -%}{{- tool | tojson -}}{{- '\n' -}}{%- endfor -%}
{{- '</tools>\n\nTo call one, answer with:\n\n<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>' -}}
{%- if ns.system -%}{{- '\n\n' + ns.system -}}{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- elif ns.system -%}
{{- '<|im_start|>system\n' + ns.system + '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages[ns.first:] -%}
{%- set content = text_of(message.content) -%}
{%- if message.role == 'tool' -%}
{%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\n<tool_response>\n' + content + '\n</tool_response>' -}}
{%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
{%- elif message.role == 'assistant' -%}
{{- '<|im_start|>assistant\n' -}}
{%- if message.reasoning_content is string and message.reasoning_content -%}
{{- '<think>\n' + message.reasoning_content | trim + '\n</think>\n\n' -}}
{%- elif enable_thinking is defined -%}
{{- '<think>\n\n</think>\n\n' -}}
{%- endif -%}
{{- content -}}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function if call.function is defined else call -%}
{%- if not loop.first -%}{{- '\n' -}}{%- elif content -%}{{- '\n\n' -}}{%- endif -%}
{{- '<tool_call>\n<function=' + function.name + '>\n' -}}
{%- if function.arguments is mapping -%}
{%- for key, value in function.arguments.items() -%}
{{- '<parameter=' + key + '>\n' -}}
{{- value if value is string else value | tojson -}}
{{- '\n</parameter>\n' -}}
{%- endfor -%}
{%- endif -%}
{{- '</function>\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined -%}
{{- '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' -}}
{%- endif -%}
{%- endif -%}
)jinja";

}  // namespace holdfast

#endif  // HOLDFAST_TOKEN_BUILTIN_TEMPLATE_H_
