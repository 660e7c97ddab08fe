#ifndef HOLDFAST_CLI_MAIN_H_
#define HOLDFAST_CLI_MAIN_H_

namespace holdfast::cli {

// The whole command line: parses, runs one sub-command, returns the exit code
// (0 done, 1 failed, 2 wrong usage).
int Main(int argc, char** argv);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_MAIN_H_
