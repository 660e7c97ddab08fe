#ifndef HOLDFAST_STATE_INDEX_H_
#define HOLDFAST_STATE_INDEX_H_

// Finds what of a prompt is already computed: a radix tree over tokens. Owners (conversations in
// RAM, sessions on disk) put their tokens into it, and points at the positions where they can be
// resumed. Nodes exist only where owners part, end or can be resumed; edges refer to the owners'
// own token sequences, so tokens are kept once per owner and compared exactly.
//
// Threads: one.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "state/token_sequence.h"

namespace holdfast {

using OwnerId = uint64_t;  // never 0

enum class Tier : uint8_t { kRam = 0, kDisk = 1 };
enum class PointKind : uint8_t { kLiveEnd = 0, kCheckpoint = 1 };

struct ResumePoint {
  int64_t position = 0;
  PointKind kind = PointKind::kCheckpoint;
  Tier tier = Tier::kRam;
  uint64_t payload = 0;  // the owner's business
};

struct IndexMatch {
  // The deepest point at most n - 1 tokens into the prompt; owner 0: none. Of points at one
  // position: RAM before disk, live end before checkpoint, bound before parked, then the newest.
  OwnerId owner = 0;
  ResumePoint point;
  // How far the prompt agrees with anything kept, and with which owner (the one used last).
  int64_t common = 0;
  OwnerId common_owner = 0;
  // Where prompt and that owner differ: position `common`, when both have a token there.
  bool differs = false;
  TokenKey expected, found;  // the owner's token and the prompt's
};

class StateIndex {
 public:
  StateIndex();
  ~StateIndex();
  StateIndex(const StateIndex&) = delete;
  StateIndex& operator=(const StateIndex&) = delete;

  // `tokens` may grow while it is registered (then Extend), and be cut again to what was taken in.
  void Add(OwnerId owner, std::shared_ptr<const TokenSequence> tokens);
  // Takes in what was appended to the owner's tokens. O(new tokens).
  void Extend(OwnerId owner);
  void Remove(OwnerId owner);               // with its points
  int64_t Registered(OwnerId owner) const;  // tokens taken in
  bool Contains(OwnerId owner) const { return owners_.count(owner) != 0; }

  // position in (0, tokens known]; one point per (position, kind, tier) and owner.
  void AddPoint(OwnerId owner, const ResumePoint& point);
  void RemovePoint(OwnerId owner, int64_t position, PointKind kind, Tier tier);
  void SetBound(OwnerId owner, bool bound);
  void Touch(OwnerId owner, uint64_t last_used);  // larger is newer

  IndexMatch Find(TokenView prompt) const;
  // Owners that share at least the first `n` tokens of `owner`, itself excluded.
  std::vector<OwnerId> Sharing(OwnerId owner, int64_t n) const;
  // Other owners all of whose tokens are a beginning of `owner`'s (or are the same).
  std::vector<OwnerId> PrefixesOf(OwnerId owner) const;
  // Owners on the path of `tokens`, each with how many of its first tokens they share.
  std::vector<std::pair<OwnerId, int64_t>> Along(TokenView tokens) const;
  // The deepest position at most `n` tokens into `owner`'s tokens at which another owner can be
  // resumed in this tier; 0: nowhere.
  int64_t DeepestOther(OwnerId owner, int64_t n, Tier tier) const;

  size_t n_owners() const { return owners_.size(); }
  size_t n_nodes() const { return n_nodes_; }  // root excluded
  // Checks every invariant of the tree (tests).
  bool Consistent() const;

 private:
  struct Node;
  struct OwnedPoint;
  struct Owner;

  Owner& Get(OwnerId id) const;
  // Puts the owner's tokens behind `from`, a node on its path, into the tree.
  void InsertPath(OwnerId id, Owner* owner, Node* from);
  // Cuts the node's run at `position`; returns the new upper part. `node` stays the lower one.
  Node* SplitAt(Node* node, int64_t position);
  // The node on the owner's path whose run holds token `position - 1`.
  Node* PathNode(const Owner& owner, int64_t position) const;
  // Removes or merges a node that nothing needs. Returns the parent to look at next, or null.
  Node* PruneStep(Node* node);
  void Prune(Node* node);
  static OwnerId AnyOwner(const Node* node);
  static void Collect(const Node* node, std::vector<OwnerId>* out);
  const OwnedPoint& Best(const Node& node) const;
  OwnerId Newest(const Node* node) const;
  // Follows the prompt as far as it goes: the nodes reached, the last perhaps not to its end.
  struct Walk;
  Walk Follow(TokenView tokens) const;
  size_t CheckNode(const Node* node) const;

  std::unique_ptr<Node> root_;
  std::unordered_map<OwnerId, std::unique_ptr<Owner>> owners_;
  size_t n_nodes_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_STATE_INDEX_H_
