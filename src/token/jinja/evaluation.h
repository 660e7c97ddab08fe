#ifndef HOLDFAST_TOKEN_JINJA_EVALUATION_H_
#define HOLDFAST_TOKEN_JINJA_EVALUATION_H_

#include "base/status.h"

namespace holdfast::jinja {

// What running statements and evaluating expressions share.

// Adds the line to errors that do not have one yet: the innermost expression is the useful one.
Status AtLine(const Status& status, int line);

// One level of nested evaluation, counted while this object lives.
class Depth {
 public:
  explicit Depth(int* depth) : depth_(depth) { ++*depth_; }
  ~Depth() { --*depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int* depth_;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_EVALUATION_H_
