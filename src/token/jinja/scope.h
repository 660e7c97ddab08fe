#ifndef HOLDFAST_TOKEN_JINJA_SCOPE_H_
#define HOLDFAST_TOKEN_JINJA_SCOPE_H_

#include <memory>
#include <optional>
#include <string_view>

#include "token/jinja/interpreter.h"

namespace holdfast::jinja {

// What `loop` means inside a for block.
struct Loop {
  const List* items = nullptr;
  size_t index0 = 0;
  std::optional<List> last_changed;  // arguments of the last loop.changed()

  // loop.index and so on; nothing for unknown names.
  std::optional<Value> Attribute(std::string_view name) const;
};

struct Scope {
  Variables variables;
  std::shared_ptr<Scope> parent;
  Loop* loop = nullptr;  // not null: this is the body of a for block

  // The nearest value of `name`; null when there is none.
  const Value* Find(std::string_view name) const;
  // The loop that `loop` means here; null outside of loops or when a variable has that name.
  Loop* FindLoop() const;
};

// A macro together with the names around it. Those live as long as the block that defines it runs;
// a macro that is kept longer (in a namespace) can no longer be called.
class MacroFunction : public Callable {
 public:
  MacroFunction(std::shared_ptr<const Macro> macro, std::weak_ptr<Scope> scope)
      : macro_(std::move(macro)), scope_(std::move(scope)) {}
  Result<Value> Call(Interpreter& interpreter, const Arguments& arguments) const override;

 private:
  std::shared_ptr<const Macro> macro_;
  std::weak_ptr<Scope> scope_;
};

}  // namespace holdfast::jinja

#endif  // HOLDFAST_TOKEN_JINJA_SCOPE_H_
