#include "cli/main.h"

int main(int argc, char** argv) { return holdfast::cli::Main(argc, argv); }
