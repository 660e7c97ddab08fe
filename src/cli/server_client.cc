#include "cli/server_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace holdfast::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint64_t kMaxAnswerBytes = 256 << 20;  // of JSON

StatusCode CodeOf(unsigned http_status) {
  switch (http_status) {
    case 400:
    case 413:
      return StatusCode::kInvalidArgument;
    case 401:
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 409:
      return StatusCode::kFailedPrecondition;
    case 429:
    case 503:
      return StatusCode::kUnavailable;
    case 504:
      return StatusCode::kDeadlineExceeded;
    default:
      return StatusCode::kInternal;
  }
}

// OK, or what the server says is wrong.
Status StatusOf(unsigned http_status, const std::string& body) {
  if (http_status >= 200 && http_status < 300) return OkStatus();
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  std::string message = fmt::format("the server answered {}", http_status);
  if (json.is_object() && json.contains("error") && json["error"].is_object() &&
      json["error"].contains("message") && json["error"]["message"].is_string()) {
    message = json["error"]["message"].get<std::string>();
  }
  return Status(CodeOf(http_status), message);
}

// One request and its answer.
class Exchange {
 public:
  Exchange(const std::string& host, const std::string& port) : host_(host), port_(port) {}

  template <typename Body>
  Status Send(http::request<Body>& request, const std::string& api_key) {
    asio::ip::tcp::resolver resolver(io_);
    error_code error;
    const auto found = resolver.resolve(host_, port_, error);
    if (!error) stream_.connect(found, error);
    if (error) return Broken("no server answers", error);
    request.version(11);
    request.set(http::field::host, host_ + ":" + port_);
    request.set(http::field::connection, "close");
    if (!api_key.empty()) request.set(http::field::authorization, "Bearer " + api_key);
    request.prepare_payload();
    http::write(stream_, request, error);
    // A server that refuses early answers and closes; its answer is what counts.
    if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
      return Broken("the request was not sent", error);
    }
    return OkStatus();
  }

  template <typename Parser>
  Status ReadHead(Parser& parser) {
    error_code error;
    http::read_header(stream_, buffer_, parser, error);
    return error ? Broken("the server gave no answer", error) : OkStatus();
  }
  template <typename Parser>
  Status ReadBody(Parser& parser) {
    error_code error;
    http::read(stream_, buffer_, parser, error);
    return error ? Broken("the answer ended early", error) : OkStatus();
  }

 private:
  Status Broken(const char* what, const error_code& error) const {
    return UnavailableError(fmt::format("{} on {}:{}: {}", what, host_, port_, error.message()));
  }

  const std::string host_, port_;
  asio::io_context io_;
  beast::tcp_stream stream_{io_};
  beast::flat_buffer buffer_;
};

template <typename Body>
http::request<Body> MakeRequest(std::string_view method, std::string_view path) {
  http::request<Body> request;
  request.method_string({method.data(), method.size()});
  request.target({path.data(), path.size()});
  request.set(http::field::content_type, "application/json");
  return request;
}

Result<Json> ReadJson(Exchange* exchange) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxAnswerBytes);
  HF_RETURN_IF_ERROR(exchange->ReadHead(parser));
  HF_RETURN_IF_ERROR(exchange->ReadBody(parser));
  const std::string& body = parser.get().body();
  HF_RETURN_IF_ERROR(StatusOf(parser.get().result_int(), body));
  return ParseJson(body);
}

}  // namespace

Result<ServerClient> ServerClient::Create(std::string_view url, std::string api_key) {
  constexpr std::string_view kScheme = "http://";
  const Status wrong = InvalidArgumentError(
      fmt::format("--server is '{}', wanted http://HOST:PORT", std::string(url)));
  std::string_view rest = url;
  if (!rest.starts_with(kScheme)) return wrong;
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return wrong;
  const size_t colon = rest.find(':', bracket);
  std::string_view host = rest.substr(0, colon);
  if (bracket != 0) host = host.substr(1, bracket - 1);
  const std::string_view port = colon == std::string_view::npos ? "80" : rest.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (host.empty() || host.find('/') != std::string_view::npos || port.empty() || port.size() > 5 ||
      !std::ranges::all_of(port, is_digit)) {
    return wrong;
  }
  return ServerClient(std::string(host), std::string(port), std::move(api_key));
}

Result<Json> ServerClient::Call(std::string_view method, std::string_view path,
                                std::string body) const {
  Exchange exchange(host_, port_);
  auto request = MakeRequest<http::string_body>(method, path);
  request.body() = std::move(body);
  HF_RETURN_IF_ERROR(exchange.Send(request, api_key_));
  return ReadJson(&exchange);
}

Status ServerClient::Download(std::string_view path, const std::string& file) const {
  Exchange exchange(host_, port_);
  auto request = MakeRequest<http::empty_body>("GET", path);
  HF_RETURN_IF_ERROR(exchange.Send(request, api_key_));
  http::response_parser<http::empty_body> head;
  head.body_limit(boost::none);
  HF_RETURN_IF_ERROR(exchange.ReadHead(head));
  if (head.get().result_int() != 200) {
    http::response_parser<http::string_body> error(std::move(head));
    HF_RETURN_IF_ERROR(exchange.ReadBody(error));
    return StatusOf(error.get().result_int(), error.get().body());
  }
  http::response_parser<http::file_body> body(std::move(head));
  const std::string part = file + ".part";
  error_code error;
  body.get().body().open(part.c_str(), beast::file_mode::write, error);
  if (error) return ErrnoError(error.value(), part);
  Status status = exchange.ReadBody(body);
  body.get().body().close();
  if (status.ok() && std::rename(part.c_str(), file.c_str()) != 0) status = ErrnoError(errno, file);
  if (!status.ok()) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
  }
  return status;
}

Result<Json> ServerClient::Upload(std::string_view path, const std::string& file) const {
  auto request = MakeRequest<http::file_body>("POST", path);
  error_code error;
  request.body().open(file.c_str(), beast::file_mode::scan, error);
  if (error) return ErrnoError(error.value(), file);
  request.set(http::field::content_type, "application/octet-stream");
  Exchange exchange(host_, port_);
  HF_RETURN_IF_ERROR(exchange.Send(request, api_key_));
  return ReadJson(&exchange);
}

}  // namespace holdfast::cli
