// Strings of a schema.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_compiler.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

struct Format {
  std::string_view name;
  std::string_view pattern;
};

// Strings that are certainly of the format (a 29th of February, a leap second are not among them).
#define HF_DATE                                                                            \
  "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|" \
  "02-(0[1-9]|1[0-9]|2[0-8]))"
#define HF_TIME                                              \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?" \
  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define HF_LABEL "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"
constexpr Format kFormats[] = {
    {"date", "^" HF_DATE "$"},
    {"time", "^" HF_TIME "$"},
    {"date-time", "^" HF_DATE "T" HF_TIME "$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"ipv4",
     "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
     "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$"},
    {"email", "^[a-zA-Z0-9_+-]{1,30}(\\.[a-zA-Z0-9_+-]{1,30})?@(" HF_LABEL "\\.){1,3}[a-z]{2,12}$"},
    {"hostname", "^" HF_LABEL "(\\." HF_LABEL "){0,4}$"},
    {"uri", "^[a-z][a-z0-9+.-]{0,15}://" HF_LABEL "(\\." HF_LABEL "){0,4}(:[1-9][0-9]{0,3})?"
            "(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?(#[A-Za-z0-9._~-]*)?$"},
};
#undef HF_DATE
#undef HF_TIME
#undef HF_LABEL

}  // namespace

void SchemaCompiler::Constrain(std::optional<TextMachine>* machine, Result<TextMachine> other,
                               const std::string& where) {
  if (other.ok() && *machine) other = Both(**machine, *other);
  if (other.ok()) {
    *machine = *std::move(other);
    return;
  }
  Fail(where,
       Status(other.status().code(), fmt::format("{}: {}", where, other.status().message())));
}

SchemaCompiler::Strings SchemaCompiler::StringsOf(const Json& schema, const std::string& where) {
  Strings strings;
  strings.min = Count(schema, where, "minLength", 0);
  strings.max = Count(schema, where, "maxLength", kUnlimited);
  for (const char* key : {"pattern", "format"}) {
    const Json* value = Find(schema, key);
    if (value == nullptr || !ok()) continue;
    const std::string at = where + "." + key;
    if (!value->is_string()) {
      Fail(at, InvalidArgumentError(fmt::format("{} must be a string", at)));
      return strings;
    }
    std::string_view pattern = value->get_ref<const std::string&>();
    if (std::string_view(key) == "format") {
      const auto known = std::ranges::find(kFormats, pattern, &Format::name);
      if (known == std::end(kFormats)) {
        std::string names;
        for (const Format& format : kFormats) names += fmt::format(" {}", format.name);
        Refuse(at, fmt::format("\"{}\" is not supported, only{} are", pattern, names));
        return strings;
      }
      pattern = known->pattern;
    }
    Constrain(&strings.machine, MachineOfPattern(pattern), at);
  }
  if (const Json* more = Find(schema, kMorePatterns); more != nullptr && more->is_array()) {
    for (const Json& pattern : *more) {
      if (!pattern.is_string()) {
        Fail(where + ".pattern", InvalidArgumentError(where + ".pattern must be a string"));
      } else if (ok()) {
        Constrain(&strings.machine, MachineOfPattern(pattern.get_ref<const std::string&>()),
                  where + ".pattern");
      }
    }
  }
  if (strings.machine && ok() && (strings.min > 0 || strings.max != kUnlimited)) {
    Constrain(&strings.machine, MachineOfLength(strings.min, strings.max), where);
    strings.min = 0;
    strings.max = kUnlimited;
  }
  return strings;
}

void SchemaCompiler::AddStrings(const Strings& strings, const std::string& where, Spelling spelling,
                                StateId from, StateId to) {
  std::optional<TextMachine> machine = strings.machine;
  const bool counted = strings.min > 0 || strings.max != kUnlimited;
  CodePointSet characters = CodePointSet::All();
  if (in_call_ && counted) {
    // Markers and lengths together would take many states.
    characters = characters.Without({{U'<', U'<'}});
  } else if (in_call_) {
    Constrain(&machine, MachineAvoiding(CallMarkers()), where);
  }
  if (!ok()) return;
  if (machine) {
    strings_.Add(from, *machine, spelling, to);
  } else {
    strings_.AddAny(from, characters, strings.min, strings.max, spelling, to);
  }
}

void SchemaCompiler::AddString(const Json& schema, const std::string& where, StateId from,
                               StateId to) {
  const Strings strings = StringsOf(schema, where);
  if (!ok()) return;
  const StateId end = builder_.NewState();
  builder_.Read(end, '"', to);
  AddStrings(strings, where, Spelling::kJson, builder_.Text(from, "\""), end);
}

void SchemaCompiler::AddRawStrings(const Json& schema, const std::string& where, bool plain,
                                   StateId from, StateId to) {
  if (!ok()) return;
  if (schema.is_boolean() || !schema.is_object()) {
    if (schema == true) AddRawStrings(Json::object(), where, plain, from, to);
    return;
  }
  std::string target_where = where;
  const Json* target = Follow(schema, &target_where);
  if (target == nullptr) return;
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const Json* branches = Find(*target, keyword);
    if (branches == nullptr || !branches->is_array()) continue;
    if (++depth_ > 64) Refuse(where, "is nested too deep");
    for (size_t i = 0; i < branches->size(); ++i) {
      AddRawStrings((*branches)[i], fmt::format("{}.{}[{}]", target_where, keyword, i), plain, from,
                    to);
    }
    --depth_;
    return;
  }
  if (const auto values = CertainValues(*target)) {
    std::vector<std::string> texts;
    for (const Json& value : *values) {
      if (!value.is_string() || !Satisfies(value, *target, target_where)) continue;
      const std::string& text = value.get_ref<const std::string&>();
      const bool breaks_call = std::ranges::any_of(CallMarkers(), [&](const auto& marker) {
        return text.find(marker) != std::string::npos;
      });
      const bool is_json = !plain && Json::accept(text);
      if (!breaks_call && !is_json) texts.push_back(text);
    }
    return builder_.OneOf(from, std::move(texts), to);
  }
  if ((TypesOf(*target, target_where) & kString) == 0) return;
  Strings strings = StringsOf(*target, target_where);
  if (!plain) {
    // No number, no beginning of an array or an object, and not one of the words.
    Constrain(&strings.machine, MachineOfPattern("^([^\\s0-9\\[{-][\\s\\S]*)?$"), target_where);
    Constrain(&strings.machine, MachineWithout({"true", "false", "null"}, /*trimmed=*/true),
              target_where);
    Constrain(&strings.machine, MachineOfLength(strings.min, strings.max), target_where);
    strings.min = 0;
    strings.max = kUnlimited;
  }
  if (ok()) AddStrings(strings, target_where, Spelling::kRaw, from, to);
}

}  // namespace holdfast
