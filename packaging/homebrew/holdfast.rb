# brew install --HEAD ./packaging/homebrew/holdfast.rb
class Holdfast < Formula
  desc "Local LLM server that never reads a conversation twice"
  license "Apache-2.0"
  # The checkout that this file lies in.
  head "file://#{File.expand_path("../..", __dir__)}", using: :git, branch: "main"

  depends_on "boost" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "tomlplusplus" => :build
  depends_on "fmt"
  depends_on "highway"
  depends_on "openssl@3"
  depends_on "pcre2"
  depends_on "prometheus-cpp"
  depends_on "spdlog"
  depends_on "sqlite"
  depends_on "utf8proc"
  depends_on "xxhash"

  def install
    system "cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DHOLDFAST_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build", "--target", "holdfast"
    system "cmake", "--install", "build"
  end

  service do
    run [opt_bin/"holdfast", "serve"]
    keep_alive true
  end

  test do
    assert_match "holdfast", shell_output("#{bin}/holdfast --version")
    assert_match "nothing: the model loads",
                 shell_output("#{bin}/holdfast inspect #{share}/holdfast/models/holdfast-demo-Q4_K_M.gguf")
  end
end
