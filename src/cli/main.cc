#include "cli/main.h"

namespace holdfast::cli {

int Main(int, char**) { return 2; }

}  // namespace holdfast::cli
