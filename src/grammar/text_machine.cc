#include "grammar/text_machine.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/check.h"
#include "grammar/grammar.h"
#include "token/utf8.h"

namespace holdfast {
namespace {

Status TooManyNodes() {
  return OutOfRangeError(fmt::format("it needs more than {} states", kMaxTextNodes));
}

std::vector<char32_t> CodePointsOf(std::string_view text) {
  std::vector<char32_t> points;
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    points.push_back(c.code_point);
    text.remove_prefix(c.n_bytes);
  }
  return points;
}

// Nodes along the beginnings of words.
struct Prefixes {
  std::vector<std::map<char32_t, int32_t>> next = {{}};
  std::vector<bool> is_word = {false};

  void Add(std::string_view word) {
    int32_t node = 0;
    for (const char32_t c : CodePointsOf(word)) {
      const auto [it, added] = next[static_cast<size_t>(node)].emplace(c, next.size());
      node = it->second;
      if (!added) continue;
      next.emplace_back();
      is_word.push_back(false);
    }
    is_word[static_cast<size_t>(node)] = true;
  }
};

}  // namespace

bool TextMachine::Accepts(std::string_view text) const {
  const Node* node = &nodes.front();
  for (const char32_t c : CodePointsOf(text)) {
    const Node* next = nullptr;
    for (const Edge& edge : node->edges) {
      if (edge.set.Has(c)) next = &nodes[static_cast<size_t>(edge.to)];
    }
    if (next == nullptr) return false;
    node = next;
  }
  return node->accepts;
}

bool TextMachine::AcceptsNothing() const {
  std::vector<bool> seen(nodes.size());
  std::vector<size_t> todo = {0};
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    if (nodes[node].accepts) return false;
    for (const Edge& edge : nodes[node].edges) {
      if (!edge.set.empty()) todo.push_back(static_cast<size_t>(edge.to));
    }
  }
  return true;
}

TextMachine MachineWithout(const std::vector<std::string>& words, bool trimmed) {
  const CodePointSet spaces = {{0x09, 0x0A}, {0x0D, 0x0D}, {0x20, 0x20}};
  Prefixes prefixes;
  for (const std::string& word : words) prefixes.Add(word);
  const int32_t other = static_cast<int32_t>(prefixes.next.size());  // no word begins like this
  TextMachine machine;
  for (size_t i = 0; i < prefixes.next.size(); ++i) {
    TextMachine::Node node{.edges = {}, .accepts = !prefixes.is_word[i]};
    CodePointSet rest = CodePointSet::All();
    for (const auto& [c, to] : prefixes.next[i]) {
      node.edges.push_back({{{c, c}}, to});
      rest = rest.Without({{c, c}});
    }
    if (trimmed && prefixes.is_word[i]) {
      node.edges.push_back({rest.And(spaces), static_cast<int32_t>(i)});
      rest = rest.Without(spaces);
    }
    node.edges.push_back({rest, other});
    machine.nodes.push_back(std::move(node));
  }
  machine.nodes.push_back({.edges = {{CodePointSet::All(), other}}, .accepts = true});
  return machine;
}

TextMachine MachineAvoiding(const std::vector<std::string>& markers) {
  Prefixes prefixes;
  for (const std::string& marker : markers) {
    HF_CHECK(marker.size() > 1 && marker.rfind('<') == 0);
    prefixes.Add(marker);
  }
  const int32_t opened = prefixes.next[0].at(U'<');
  TextMachine machine;
  for (size_t i = 0; i < prefixes.next.size(); ++i) {
    TextMachine::Node node{.edges = {}, .accepts = true};
    // What does not go on with a marker begins one again, or none.
    CodePointSet rest = CodePointSet::All();
    for (const auto& [c, to] : prefixes.next[i]) {
      rest = rest.Without({{c, c}});
      if (!prefixes.is_word[static_cast<size_t>(to)]) node.edges.push_back({{{c, c}}, to});
    }
    if (rest.Has(U'<')) {
      node.edges.push_back({{{U'<', U'<'}}, opened});
      rest = rest.Without({{U'<', U'<'}});
    }
    node.edges.push_back({rest, 0});
    machine.nodes.push_back(std::move(node));
  }
  return machine;
}

Result<TextMachine> MachineOfLength(int64_t min, int64_t max) {
  const int64_t last = max == kUnlimited ? min : max;
  if (last >= static_cast<int64_t>(kMaxTextNodes)) return TooManyNodes();
  TextMachine machine;
  for (int64_t i = 0; i <= last; ++i) {
    TextMachine::Node node{.edges = {}, .accepts = i >= min};
    if (i < last) {
      node.edges.push_back({CodePointSet::All(), static_cast<int32_t>(i) + 1});
    } else if (max == kUnlimited) {
      node.edges.push_back({CodePointSet::All(), static_cast<int32_t>(i)});
    }
    machine.nodes.push_back(std::move(node));
  }
  return machine;
}

TextMachine Complement(const TextMachine& machine) {
  const int32_t other = static_cast<int32_t>(machine.nodes.size());
  TextMachine complement;
  for (const TextMachine::Node& node : machine.nodes) {
    TextMachine::Node inverse{.edges = node.edges, .accepts = !node.accepts};
    CodePointSet rest = CodePointSet::All();
    for (const TextMachine::Edge& edge : node.edges) rest = rest.Without(edge.set);
    if (!rest.empty()) inverse.edges.push_back({rest, other});
    complement.nodes.push_back(std::move(inverse));
  }
  complement.nodes.push_back({.edges = {{CodePointSet::All(), other}}, .accepts = true});
  return complement;
}

Result<TextMachine> Both(const TextMachine& a, const TextMachine& b) {
  using Pair = std::pair<int32_t, int32_t>;
  std::map<Pair, int32_t> known = {{{0, 0}, 0}};
  std::vector<Pair> pairs = {{0, 0}};
  TextMachine both;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMaxTextNodes) return TooManyNodes();
    const TextMachine::Node& left = a.nodes[static_cast<size_t>(pairs[i].first)];
    const TextMachine::Node& right = b.nodes[static_cast<size_t>(pairs[i].second)];
    TextMachine::Node node{.edges = {}, .accepts = left.accepts && right.accepts};
    for (const auto& x : left.edges) {
      for (const auto& y : right.edges) {
        CodePointSet set = x.set.And(y.set);
        if (set.empty()) continue;
        const auto [it, added] = known.emplace(Pair{x.to, y.to}, pairs.size());
        if (added) pairs.push_back({x.to, y.to});
        node.edges.push_back({std::move(set), it->second});
      }
    }
    both.nodes.push_back(std::move(node));
  }
  return both;
}

}  // namespace holdfast
