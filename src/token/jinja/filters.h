#ifndef HOLDFAST_TOKEN_JINJA_FILTERS_H_
#define HOLDFAST_TOKEN_JINJA_FILTERS_H_

#include <map>
#include <string_view>

#include "base/status.h"
#include "token/jinja/interpreter.h"
#include "token/jinja/value.h"

namespace holdfast::jinja {

using Filter = Result<Value> (*)(Interpreter&, const Value&, const Arguments&);
using FilterTable = std::map<std::string_view, Filter>;

// Filters on one value: text, numbers, tojson.
const FilterTable& ValueFilters();
// Filters that walk lists: map, select, sort, join and their kin.
const FilterTable& ListFilters();

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_FILTERS_H_
