#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "engine/engine.h"
#include "grammar/grammar_cache.h"
#include "server/api_error.h"
#include "server/request_metrics.h"
#include "server/state_api.h"

namespace holdfast {
namespace {

// Collects single values, labelled or not, into families.
class Families {
 public:
  void Gauge(const char* name, const char* help, double value) {
    Begin(name, help, prometheus::MetricType::Gauge).gauge.value = value;
  }
  void Counter(const char* name, const char* help, double value, const char* label = nullptr,
               const std::string& label_value = "") {
    prometheus::ClientMetric& metric = Begin(name, help, prometheus::MetricType::Counter);
    metric.counter.value = value;
    if (label != nullptr) metric.label.push_back({label, label_value});
  }
  const std::vector<prometheus::MetricFamily>& all() const { return families_; }

 private:
  // Values of one family come one after the other.
  prometheus::ClientMetric& Begin(const char* name, const char* help, prometheus::MetricType type) {
    if (families_.empty() || families_.back().name != name) {
      prometheus::MetricFamily family;
      family.name = name;
      family.help = help;
      family.type = type;
      families_.push_back(std::move(family));
    }
    return families_.back().metric.emplace_back();
  }

  std::vector<prometheus::MetricFamily> families_;
};

void AddCache(const StateCacheStats& s, Families* f) {
  f->Gauge("holdfast_conversations_bound", "Conversations being computed", s.n_bound);
  f->Gauge("holdfast_conversations_parked", "Conversations kept in RAM", s.n_parked);
  f->Gauge("holdfast_conversations_on_disk", "Conversations known to be on disk", s.n_on_disk);
  f->Gauge("holdfast_state_bytes", "RAM taken for pages and running states", s.taken_bytes);
  f->Gauge("holdfast_state_limit_bytes", "RAM they may take", s.limit_bytes);
  f->Gauge("holdfast_state_parked_bytes", "Of it by parked conversations", s.parked_bytes);
  f->Gauge("holdfast_pages_in_use", "Pages in use", s.pages.n_in_use);
  f->Gauge("holdfast_running_states_in_use", "Running states in use", s.running.n_in_use);
  f->Counter("holdfast_evicted_total", "Conversations evicted from RAM", s.n_evicted);
  constexpr const char* kSources[] = {"none", "live", "ram", "borrowed", "disk"};
  for (size_t i = 0; i < s.n_begun.size(); ++i) {
    f->Counter("holdfast_requests_begun_total", "Requests by where their state came from",
               s.n_begun[i], "source", kSources[i]);
  }
}

void AddRelief(const MemoryReliefStats& s, Families* f) {
  f->Gauge("holdfast_memory_pressure", "Memory pressure of the host: 0 none, 1 some, 2 high",
           static_cast<int>(s.level));
  if (s.pressure) {
    f->Gauge("holdfast_memory_stall_some_percent",
             "Share of the last 10 s in which some task waited for memory", s.pressure->some_avg10);
    f->Gauge("holdfast_memory_stall_full_percent",
             "Share of the last 10 s in which all tasks waited for memory", s.pressure->full_avg10);
  }
  constexpr const char* kSteps[] = {"free_buffers", "on_disk", "parked"};
  for (size_t i = 0; i < s.given_bytes.size(); ++i) {
    f->Counter("holdfast_memory_given_back_bytes_total", "RAM given back under pressure",
               static_cast<double>(s.given_bytes[i]), "step", kSteps[i]);
  }
}

void AddExperts(const ExpertTierStats& s, Families* f) {
  f->Gauge("holdfast_expert_slots", "Experts that have a place in memory", s.n_slots);
  f->Gauge("holdfast_experts_resident", "Experts in memory", s.n_resident);
  f->Gauge("holdfast_experts", "Experts of the model", s.n_experts);
  const auto each = [&](const char* name, const char* help, const auto& value) {
    for (size_t i = 0; i < s.layers.size(); ++i) {
      f->Counter(name, help, static_cast<double>(value(s.layers[i])), "layer", std::to_string(i));
    }
  };
  using Layer = ExpertTierStats::Layer;
  each("holdfast_expert_hits_total", "Uses of experts that were in memory",
       [](const Layer& l) { return l.n_hits; });
  each("holdfast_expert_late_total", "Uses of experts that were being read ahead",
       [](const Layer& l) { return l.n_late; });
  each("holdfast_expert_misses_total", "Uses of experts that had to be read",
       [](const Layer& l) { return l.n_misses; });
  each("holdfast_expert_read_bytes_total", "Bytes of experts read from the model's file",
       [](const Layer& l) { return l.bytes_read; });
  each("holdfast_expert_stall_seconds_total", "Time in which steps waited for experts",
       [](const Layer& l) { return l.stall_seconds; });
}

void AddNgramRows(const NgramTierStats& s, Families* f) {
  f->Gauge("holdfast_ngram_slots", "Rows of the n-gram table that have a place in memory",
           static_cast<double>(s.n_slots));
  f->Gauge("holdfast_ngram_rows_resident", "Rows of the n-gram table in memory",
           static_cast<double>(s.n_resident));
  f->Counter("holdfast_ngram_rows_total", "Rows of the n-gram table asked for by steps",
             static_cast<double>(s.n_asked));
  f->Counter("holdfast_ngram_repeated_total", "Of them asked for before in the same step",
             static_cast<double>(s.n_repeated));
  f->Counter("holdfast_ngram_hits_total", "Of them in memory", static_cast<double>(s.n_hits));
  f->Counter("holdfast_ngram_read_total", "Of them read from the model's file",
             static_cast<double>(s.n_read));
  f->Counter("holdfast_ngram_read_bytes_total", "Bytes read from the model's file for them",
             static_cast<double>(s.bytes_read));
  f->Counter("holdfast_ngram_stall_seconds_total", "Time in which steps waited for them",
             s.stall_seconds);
}

void AddStore(const PersistenceStats& s, Families* f) {
  f->Counter("holdfast_store_saves_total", "Saves", s.n_saves);
  f->Counter("holdfast_store_failed_saves_total", "Saves that failed", s.n_failed_saves);
  f->Counter("holdfast_store_written_bytes_total", "Bytes written by saves", s.bytes_written);
  f->Counter("holdfast_store_restores_total", "Conversations restored", s.n_restores);
  f->Counter("holdfast_store_failed_proofs_total", "Restores that did not prove themselves",
             s.n_failed_proofs);
  f->Counter("holdfast_store_read_bytes_total", "Bytes read by restores", s.bytes_read);
  f->Gauge("holdfast_store_pending_saves", "Saves that wait or run", s.n_pending);
  f->Gauge("holdfast_store_running_restores", "Restores that wait or run", s.n_restoring);
}

}  // namespace

HttpReply HandleMetrics(const ServicePtr& model, const HttpRequest&) {
  if (model->engine == nullptr) {
    return OpenAiErrorResponse(
        {.status = UnimplementedError("this server has no engine of its own to ask")});
  }
  const EngineStatus status = model->engine->status();
  Families families;
  families.Counter("holdfast_steps_total", "Forward passes", status.scheduler.n_steps);
  families.Counter("holdfast_engine_restarts_total",
                   "Restarts of the engine after a step that did not end", model->n_restarts);
  families.Gauge("holdfast_step_seconds", "Duration of the last step",
                 status.scheduler.last_step_ms / 1000);
  families.Gauge("holdfast_requests_waiting", "Requests that wait for a slot",
                 status.scheduler.n_waiting);
  families.Gauge("holdfast_slots", "Conversations that can be computed together",
                 model->engine->plan().n_slots);
  const auto& drafts = status.scheduler.drafts.depths;
  for (size_t i = 0; i < drafts.size(); ++i) {
    families.Counter("holdfast_guesses_total", "Tokens guessed ahead, by place in their window",
                     drafts[i].n_drafted, "depth", std::to_string(i + 1));
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    families.Counter("holdfast_guesses_right_total", "Of them right", drafts[i].n_accepted, "depth",
                     std::to_string(i + 1));
  }
  if (status.experts) AddExperts(*status.experts, &families);
  if (status.ngram) AddNgramRows(*status.ngram, &families);
  AddCache(status.cache, &families);
  AddRelief(status.relief, &families);
  if (model->engine->persistence() != nullptr) AddStore(status.store, &families);
  if (model->grammars != nullptr) {
    families.Gauge("holdfast_grammar_bytes", "RAM of the grammars of formats that are kept",
                   static_cast<double>(model->grammars->bytes()));
  }
  // An occupancy that is not known is absent, never stale.
  if (status.host.available_bytes) {
    families.Gauge("holdfast_host_available_bytes", "RAM that the host could still give",
                   static_cast<double>(*status.host.available_bytes));
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  std::vector<prometheus::MetricFamily> all = families.all();
  if (model->metrics != nullptr) {
    for (prometheus::MetricFamily& family : model->metrics->Collect()) {
      all.push_back(std::move(family));
    }
  }
  response.body = prometheus::TextSerializer().Serialize(all);
  return response;
}

}  // namespace holdfast
