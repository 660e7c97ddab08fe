#include "state/index.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"

namespace holdfast {

struct StateIndex::OwnedPoint {
  OwnerId owner = 0;
  ResumePoint point;
};

// Stands for the tokens [begin, end) of every owner below it; `tokens` is the sequence of one of
// them, so the positions are the same in all.
struct StateIndex::Node {
  Node* parent = nullptr;
  int64_t begin = 0, end = 0;
  OwnerId token_owner = 0;
  std::shared_ptr<const TokenSequence> tokens;
  std::map<TokenKey, std::unique_ptr<Node>> children;
  std::vector<OwnedPoint> points;  // at `end`
  std::vector<OwnerId> ends;       // owners whose tokens end at `end`
};

struct StateIndex::Owner {
  std::shared_ptr<const TokenSequence> tokens;
  Node* end = nullptr;
  bool bound = false;
  uint64_t last_used = 0;
};

struct StateIndex::Walk {
  std::vector<const Node*> nodes;  // from the root; all but the last matched to their end
  int64_t matched = 0;             // tokens
};

StateIndex::StateIndex() : root_(std::make_unique<Node>()) {}
StateIndex::~StateIndex() = default;

StateIndex::Owner& StateIndex::Get(OwnerId id) const {
  const auto it = owners_.find(id);
  HF_CHECK(it != owners_.end());
  return *it->second;
}

void StateIndex::Add(OwnerId owner, std::shared_ptr<const TokenSequence> tokens) {
  HF_CHECK(owner != 0);
  auto entry = std::make_unique<Owner>();
  entry->tokens = std::move(tokens);
  Owner* const added = entry.get();
  HF_CHECK(owners_.emplace(owner, std::move(entry)).second);
  InsertPath(owner, added, root_.get());
}

void StateIndex::Extend(OwnerId id) {
  Owner& owner = Get(id);
  Node* const end = owner.end;
  if (end->end == owner.tokens->size()) return;
  std::erase(end->ends, id);
  const bool only_mine = end != root_.get() && end->token_owner == id && end->ends.empty() &&
                         end->points.empty() && end->children.empty();
  if (only_mine) {
    end->end = owner.tokens->size();
    end->ends.push_back(id);
    return;
  }
  InsertPath(id, &owner, end);
  Prune(end);
}

void StateIndex::InsertPath(OwnerId id, Owner* owner, Node* from) {
  const TokenView tokens = owner->tokens->view();
  while (from->end < tokens.size()) {
    const int64_t position = from->end;
    auto& slot = from->children[tokens.key(position)];
    if (slot == nullptr) {
      slot = std::make_unique<Node>();
      slot->parent = from;
      slot->begin = position;
      slot->end = tokens.size();
      slot->token_owner = id;
      slot->tokens = owner->tokens;
      ++n_nodes_;
      from = slot.get();
      break;
    }
    Node* const child = slot.get();
    const int64_t same =
        FirstDifference(child->tokens->view().Prefix(child->end), tokens, position);
    from = same < child->end ? SplitAt(child, same) : child;
  }
  from->ends.push_back(id);
  owner->end = from;
}

StateIndex::Node* StateIndex::SplitAt(Node* node, int64_t position) {
  HF_CHECK(node->begin < position && position < node->end);
  auto& slot = node->parent->children[node->tokens->view().key(node->begin)];
  auto upper = std::make_unique<Node>();
  upper->parent = node->parent;
  upper->begin = node->begin;
  upper->end = position;
  upper->token_owner = node->token_owner;
  upper->tokens = node->tokens;
  upper->children[node->tokens->view().key(position)] = std::move(slot);
  node->parent = upper.get();
  node->begin = position;
  ++n_nodes_;
  slot = std::move(upper);
  return slot.get();
}

StateIndex::Node* StateIndex::PathNode(const Owner& owner, int64_t position) const {
  Node* node = owner.end;
  while (node->begin >= position && node->parent != nullptr) node = node->parent;
  return node;
}

StateIndex::Node* StateIndex::PruneStep(Node* node) {
  Node* const parent = node->parent;
  if (parent == nullptr || !node->points.empty() || !node->ends.empty()) return nullptr;
  if (node->children.size() > 1) return nullptr;
  const TokenKey key = node->tokens->view().key(node->begin);
  --n_nodes_;
  if (node->children.empty()) {
    parent->children.erase(key);
    return parent;
  }
  std::unique_ptr<Node> child = std::move(node->children.begin()->second);
  child->begin = node->begin;
  child->parent = parent;
  parent->children[key] = std::move(child);  // destroys node
  return nullptr;
}

void StateIndex::Prune(Node* node) {
  while (node != nullptr) node = PruneStep(node);
}

OwnerId StateIndex::AnyOwner(const Node* node) {
  while (node->ends.empty()) node = node->children.begin()->second.get();
  return node->ends.front();
}

void StateIndex::Remove(OwnerId id) {
  const Owner& owner = Get(id);
  std::erase(owner.end->ends, id);
  for (Node* node = owner.end; node != root_.get();) {
    Node* const parent = node->parent;
    std::erase_if(node->points, [&](const OwnedPoint& p) { return p.owner == id; });
    const bool empty = node->ends.empty() && node->children.empty();
    // The run must not refer to tokens that go away; anybody below has the same.
    if (node->token_owner == id && !empty) {
      node->token_owner = AnyOwner(node);
      node->tokens = Get(node->token_owner).tokens;
    }
    PruneStep(node);
    node = parent;
  }
  owners_.erase(id);
}

void StateIndex::AddPoint(OwnerId id, const ResumePoint& point) {
  const Owner& owner = Get(id);
  HF_CHECK(point.position > 0 && point.position <= owner.end->end);
  Node* node = PathNode(owner, point.position);
  if (node->end != point.position) node = SplitAt(node, point.position);
  for (OwnedPoint& p : node->points) {
    if (p.owner == id && p.point.kind == point.kind && p.point.tier == point.tier) {
      p.point = point;
      return;
    }
  }
  node->points.push_back({id, point});
}

void StateIndex::RemovePoint(OwnerId id, int64_t position, PointKind kind, Tier tier) {
  Node* const node = PathNode(Get(id), position);
  if (node->end != position) return;
  std::erase_if(node->points, [&](const OwnedPoint& p) {
    return p.owner == id && p.point.kind == kind && p.point.tier == tier;
  });
  Prune(node);
}

int64_t StateIndex::Registered(OwnerId owner) const { return Get(owner).end->end; }
void StateIndex::SetBound(OwnerId owner, bool bound) { Get(owner).bound = bound; }
void StateIndex::Touch(OwnerId owner, uint64_t last_used) { Get(owner).last_used = last_used; }

const StateIndex::OwnedPoint& StateIndex::Best(const Node& node) const {
  const auto key = [&](const OwnedPoint& p) {
    const Owner& owner = Get(p.owner);
    return std::tuple(p.point.tier, p.point.kind, !owner.bound, ~owner.last_used, p.owner);
  };
  return *std::ranges::min_element(node.points,
                                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

void StateIndex::Collect(const Node* node, std::vector<OwnerId>* out) {
  out->insert(out->end(), node->ends.begin(), node->ends.end());
  for (const auto& [key, child] : node->children) Collect(child.get(), out);
}

OwnerId StateIndex::Newest(const Node* node) const {
  std::vector<OwnerId> owners;
  Collect(node, &owners);
  return *std::ranges::max_element(owners, [&](OwnerId a, OwnerId b) {
    return std::pair(Get(a).last_used, b) < std::pair(Get(b).last_used, a);
  });
}

StateIndex::Walk StateIndex::Follow(TokenView tokens) const {
  Walk walk;
  walk.nodes.push_back(root_.get());
  while (walk.matched < tokens.size() && walk.nodes.back()->end == walk.matched) {
    const auto& children = walk.nodes.back()->children;
    const auto it = children.find(tokens.key(walk.matched));
    if (it == children.end()) break;
    const Node* const child = it->second.get();
    walk.nodes.push_back(child);
    walk.matched =
        FirstDifference(child->tokens->view().Prefix(child->end), tokens, walk.matched + 1);
  }
  return walk;
}

IndexMatch StateIndex::Find(TokenView prompt) const {
  IndexMatch match;
  const Walk walk = Follow(prompt);
  for (const Node* node : walk.nodes) {
    if (node->points.empty() || node->end > walk.matched || node->end >= prompt.size()) continue;
    const OwnedPoint& best = Best(*node);
    match.owner = best.owner;
    match.point = best.point;
  }
  match.common = walk.matched;
  if (walk.matched == 0) return match;
  match.common_owner = Newest(walk.nodes.back());
  const TokenView kept = Get(match.common_owner).tokens->view();
  if (walk.matched < prompt.size() && walk.matched < kept.size()) {
    match.differs = true;
    match.expected = kept.key(walk.matched);
    match.found = prompt.key(walk.matched);
  }
  return match;
}

std::vector<OwnerId> StateIndex::Sharing(OwnerId owner, int64_t n) const {
  std::vector<OwnerId> owners;
  Collect(PathNode(Get(owner), n), &owners);
  std::erase(owners, owner);
  return owners;
}

std::vector<OwnerId> StateIndex::PrefixesOf(OwnerId owner) const {
  std::vector<OwnerId> owners;
  for (const Node* node = Get(owner).end; node != root_.get(); node = node->parent) {
    owners.insert(owners.end(), node->ends.begin(), node->ends.end());
  }
  std::erase(owners, owner);
  return owners;
}

std::vector<std::pair<OwnerId, int64_t>> StateIndex::Along(TokenView tokens) const {
  std::vector<std::pair<OwnerId, int64_t>> result;
  const Walk walk = Follow(tokens);
  const Node* below = nullptr;
  for (size_t i = walk.nodes.size(); i-- > 1;) {
    const Node* const node = walk.nodes[i];
    std::vector<OwnerId> owners = node->ends;
    for (const auto& [key, child] : node->children) {
      if (child.get() != below) Collect(child.get(), &owners);
    }
    for (OwnerId owner : owners) result.emplace_back(owner, std::min(walk.matched, node->end));
    below = node;
  }
  return result;
}

int64_t StateIndex::DeepestOther(OwnerId owner, int64_t n, Tier tier) const {
  for (const Node* node = PathNode(Get(owner), n); node != root_.get(); node = node->parent) {
    if (node->end > n) continue;
    for (const OwnedPoint& p : node->points) {
      if (p.owner != owner && p.point.tier == tier) return node->end;
    }
  }
  return 0;
}

// Returns the number of nodes below; SIZE_MAX when something is wrong.
size_t StateIndex::CheckNode(const Node* node) const {
  const bool is_root = node == root_.get();
  bool ok = is_root || (node->begin < node->end && owners_.count(node->token_owner) != 0 &&
                        Get(node->token_owner).tokens == node->tokens);
  ok = ok && (is_root || !node->points.empty() || !node->ends.empty() || node->children.size() > 1);
  for (OwnerId id : node->ends) {
    ok = ok && owners_.count(id) != 0 && Get(id).end == node && Get(id).tokens->size() >= node->end;
    // The path's runs must be the owner's own tokens.
    for (const Node* n = node; ok && n != root_.get(); n = n->parent) {
      ok = FirstDifference(n->tokens->view().Prefix(n->end), Get(id).tokens->view().Prefix(n->end),
                           n->begin) == n->end;
    }
  }
  for (const OwnedPoint& p : node->points) ok = ok && owners_.count(p.owner) != 0;
  size_t n = 0;
  for (const auto& [key, child] : node->children) {
    ok = ok && child->parent == node && child->begin == node->end;
    ok = ok && child->tokens->view().key(child->begin) == key;
    const size_t below = ok ? CheckNode(child.get()) : SIZE_MAX;
    if (below == SIZE_MAX) return SIZE_MAX;
    n += below + 1;
  }
  return ok ? n : SIZE_MAX;
}

bool StateIndex::Consistent() const { return CheckNode(root_.get()) == n_nodes_; }

}  // namespace holdfast
