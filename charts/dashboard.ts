import type { JsonObject } from '@tollway/chassis/json.ts'

interface Query {
  readonly expr: string
  /** The name of each series: text, with labels as `{{pod}}`. */
  readonly legend: string
}

interface Panel {
  readonly title: string
  readonly description: string
  readonly queries: readonly Query[]
  /** The unit by its name in Grafana; undefined for plain numbers. */
  readonly unit?: 'ops' | 's' | 'ms' | 'bytes' | 'percentunit'
}

interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

/** Returns a PromQL selector for a metric in the chosen namespace, with further label matchers. */
const of = (metric: string, ...labels: readonly string[]) =>
  `${metric}{${['namespace="$namespace"', ...labels].join(', ')}}`
const rate = (...metric: Parameters<typeof of>) => `rate(${of(...metric)}[$__rate_interval])`
const sum = (expr: string, ...by: readonly string[]) =>
  by.length === 0 ? `sum(${expr})` : `sum by (${by.join(', ')}) (${expr})`
const quantiles = (histogram: string): readonly Query[] =>
  [0.5, 0.99].map(quantile => ({
    expr: `histogram_quantile(${quantile}, ${sum(rate(`${histogram}_bucket`), 'le')})`,
    legend: `p${quantile * 100}`,
  }))

const limit = 'ratelimit_service_rate_limit'
const chosenDomains = 'domain=~"$domain"'
const hits = (outcome: string) => rate(`${limit}_${outcome}`, chosenDomains)
const responseTime = 'ratelimit_service_response_time_seconds'
const withinFiveMs = rate(`${responseTime}_bucket`, 'le="0.005"')

const operatorRow: Row = {
  title: 'Operator',
  panels: [
    {
      title: 'Leader',
      description: 'The operator that writes: exactly one has 1.',
      queries: [{ expr: of('tollway_operator_leader'), legend: '{{pod}}' }],
    },
    {
      title: 'Resources',
      description: 'Resources that are not ready are invalid, or not enforced by every pod.',
      queries: [
        { expr: `max(${of('tollway_resources', 'ready="true"')})`, legend: 'ready' },
        { expr: `max(${of('tollway_resources', 'ready="false"')})`, legend: 'not ready' },
      ],
    },
    {
      title: 'Statuses and certificates',
      description: 'Statuses that wait to be written, and whether the certificates have a problem.',
      queries: [
        { expr: sum(of('tollway_status_queue')), legend: 'statuses waiting' },
        { expr: `max(${of('tollway_certificate_problem')})`, legend: 'certificate problem' },
      ],
    },
    {
      title: 'Reconciles',
      description: 'Reconciles of all resources, and failed ones.',
      unit: 'ops',
      queries: [
        { expr: sum(rate('tollway_reconcile_seconds_count')), legend: 'all' },
        { expr: sum(rate('tollway_reconcile_failures_total')), legend: 'failed' },
      ],
    },
    {
      title: 'Time of a reconcile',
      description: 'The duration of one reconcile of all resources.',
      unit: 's',
      queries: quantiles('tollway_reconcile_seconds'),
    },
    {
      title: 'Memory',
      description: 'The resident memory of the operators.',
      unit: 'bytes',
      queries: [{ expr: of('tollway_operator_process_resident_memory_bytes'), legend: '{{pod}}' }],
    },
  ],
}

const feedRow: Row = {
  title: 'Feed',
  panels: [
    {
      title: 'Connected pods',
      description: 'Pods with a stream of the feed, by operator.',
      queries: [{ expr: of('tollway_feed_connected_pods'), legend: '{{pod}}' }],
    },
    {
      title: 'Propagation',
      description: 'From the first sight of a change until every pod enforces it.',
      unit: 's',
      queries: quantiles('tollway_propagation_seconds'),
    },
    {
      title: 'Configurations',
      description: 'Configurations that the pods loaded or rejected.',
      unit: 'ops',
      queries: [
        { expr: sum(rate('ratelimit_service_config_load_success')), legend: 'loaded' },
        { expr: sum(rate('ratelimit_service_config_load_error')), legend: 'rejected' },
      ],
    },
  ],
}

const decisionsRow: Row = {
  title: 'Rate limit decisions',
  panels: [
    {
      title: 'Hits',
      description: 'Hits of limits, by domain.',
      unit: 'ops',
      queries: [{ expr: sum(hits('total_hits'), 'domain'), legend: '{{domain}}' }],
    },
    {
      title: 'Over the limit',
      description: 'The share of the hits of a domain that were above their limits.',
      unit: 'percentunit',
      queries: [
        {
          expr: `${sum(hits('over_limit'), 'domain')} / ${sum(hits('total_hits'), 'domain')}`,
          legend: '{{domain}}',
        },
      ],
    },
    {
      title: 'Outcomes',
      description: 'The hits of the chosen domains. Hits near a limit are within it.',
      unit: 'ops',
      queries: [
        { expr: sum(hits('within_limit')), legend: 'within the limit' },
        { expr: sum(hits('near_limit')), legend: 'near the limit' },
        { expr: sum(hits('over_limit')), legend: 'over the limit' },
        { expr: sum(hits('shadow_mode')), legend: 'allowed by shadow mode' },
      ],
    },
    {
      title: 'Rules that reject the most hits',
      description: 'Hits above their limits, by the first two descriptors.',
      unit: 'ops',
      queries: [
        {
          expr: `topk(10, ${sum(hits('over_limit'), 'domain', 'key1', 'key2')})`,
          legend: '{{domain}} {{key1}} {{key2}}',
        },
      ],
    },
  ],
}

const latencyRow: Row = {
  title: 'Latency',
  panels: [
    {
      title: 'Calls',
      description: 'gRPC calls by pod, which should be balanced.',
      unit: 'ops',
      queries: [{ expr: sum(rate('ratelimit_service_total_requests'), 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Time of a decision',
      description: 'The time inside the pods. Envoy waits 20 ms by default.',
      unit: 's',
      queries: quantiles(responseTime),
    },
    {
      title: 'Within 5 ms',
      description: 'The share of decisions within 5 ms.',
      unit: 'percentunit',
      queries: [
        {
          expr: `${sum(withinFiveMs, 'pod')} / ${sum(rate(`${responseTime}_count`), 'pod')}`,
          legend: '{{pod}}',
        },
      ],
    },
  ],
}

const backendRow: Row = {
  title: 'Backend',
  panels: [
    {
      title: 'Errors',
      description: 'redis_error: a hit could not be counted. service_error: a call was invalid.',
      unit: 'ops',
      queries: [
        {
          expr: sum(rate('ratelimit_service_should_rate_limit_error'), 'pod', 'err_type'),
          legend: '{{pod}} {{err_type}}',
        },
      ],
    },
    {
      title: 'Connections',
      description: 'Connections to Redis, by pod.',
      queries: [{ expr: of('ratelimit_redis_pool_cx_active'), legend: '{{pod}}' }],
    },
    {
      title: 'New connections',
      description: 'A high rate means that connections break.',
      unit: 'ops',
      queries: [{ expr: sum(rate('ratelimit_redis_pool_cx_total'), 'pod'), legend: '{{pod}}' }],
    },
  ],
}

const sharesRow: Row = {
  title: 'Quotas and leases',
  panels: [
    {
      title: 'Proxies and shares',
      description:
        'Proxies with a stream, and their shares of limits, by pod. Empty without rules of delivery: Quota.',
      queries: [
        { expr: of('ratelimit_quota_streams'), legend: '{{pod}} proxies' },
        { expr: of('ratelimit_quota_shares'), legend: '{{pod}} shares' },
      ],
    },
    {
      title: 'Renewals of shares',
      description: 'Failed renewals, and pods that grant nothing new because Redis has lost its data.',
      queries: [
        { expr: sum(rate('ratelimit_quota_failed_renewals'), 'pod'), legend: '{{pod}} failed/s' },
        { expr: sum(of('ratelimit_quota_learning')), legend: 'pods that learn' },
      ],
    },
    {
      title: 'Hits taken ahead',
      description: 'What the leases of each pod have left. Empty without counting: Leased.',
      queries: [{ expr: of('ratelimit_leases_hits'), legend: '{{pod}}' }],
    },
  ],
}

const broker = (metric: string) => `tollway_broker_${metric}`

const streamsRow: Row = {
  title: 'Animation streams',
  panels: [
    {
      title: 'Producers and consumers',
      description: 'Connected producers and consumers.',
      queries: [
        { expr: sum(of(broker('producers_active'))), legend: 'producers' },
        { expr: sum(of(broker('consumers_active'))), legend: 'consumers' },
      ],
    },
    {
      title: 'Messages',
      description: 'Messages from producers, and messages to each consumer.',
      unit: 'ops',
      queries: [
        { expr: sum(rate(broker('messages_in_total'))), legend: 'in' },
        { expr: sum(rate(broker('messages_out_total'))), legend: 'out' },
      ],
    },
    {
      title: 'Delivered',
      description: 'Bytes to consumers per second, by pod.',
      unit: 'bytes',
      queries: [{ expr: sum(rate(broker('bytes_out_total')), 'pod'), legend: '{{pod}}' }],
    },
    {
      title: 'Time to the first message',
      description: 'From a pull, or from the start of its request if that is later.',
      unit: 'ms',
      queries: quantiles(broker('time_to_first_message_ms')),
    },
    {
      title: 'Lag',
      description: 'The delay of a message at the broker, compared with its time code.',
      unit: 'ms',
      queries: quantiles(broker('lag_ms')),
    },
    {
      title: 'Waiting for consumers',
      description: 'Bytes that consumers have not read yet, by pod.',
      unit: 'bytes',
      queries: [{ expr: of(broker('queue_bytes')), legend: '{{pod}}' }],
    },
    {
      title: 'Losses',
      description: 'Producers and consumers that were disconnected, and messages that were dropped.',
      unit: 'ops',
      queries: [
        { expr: sum(rate(broker('producers_lost_total'))), legend: 'producers lost' },
        { expr: sum(rate(broker('consumers_cut_off_total'))), legend: 'consumers cut off' },
        { expr: sum(rate(broker('messages_dropped_total'))), legend: 'messages dropped' },
        { expr: sum(rate(broker('requests_interrupted_total'))), legend: 'requests interrupted' },
      ],
    },
    {
      title: 'Errors',
      description: 'Calls that ended with a gRPC error, and violations of stream rules.',
      unit: 'ops',
      queries: [
        {
          expr: sum(rate(broker('errors_total')), 'call', 'status'),
          legend: '{{call}} {{status}}',
        },
        { expr: sum(rate(broker('violations_total')), 'rule'), legend: 'rule {{rule}}' },
      ],
    },
    {
      title: 'Stream log',
      description: 'Whether a broker reaches its stream log.',
      queries: [{ expr: of(broker('log_healthy')), legend: '{{pod}}' }],
    },
  ],
}

const payments = (metric: string) => `payments_${metric}`
const requests = payments('http_requests_total')
const serverErrors = 'status=~"5.."'

const paymentsRow: Row = {
  title: 'Payments',
  panels: [
    {
      title: 'Requests',
      description: 'Requests of the API, the payment page and the operator, by status.',
      unit: 'ops',
      queries: [{ expr: sum(rate(requests), 'status'), legend: '{{status}}' }],
    },
    {
      title: 'Server errors',
      description: 'The share of requests that failed.',
      unit: 'percentunit',
      queries: [{ expr: `${sum(rate(requests, serverErrors))} / ${sum(rate(requests))}`, legend: '5xx' }],
    },
    {
      title: 'Time of a request',
      description: 'The time inside the pods, of all routes.',
      unit: 's',
      queries: quantiles(payments('http_request_seconds')),
    },
    {
      title: 'Pending deliveries',
      description: 'Mail, webhook events and instructions for the processor that are not delivered yet.',
      queries: [{ expr: `max by (outbox) (${of(payments('outbox_waiting'))})`, legend: '{{outbox}}' }],
    },
    {
      title: 'Overdue deliveries',
      description:
        'The time since the next entry was due. A few seconds at most while a process delivers them.',
      unit: 's',
      queries: [
        { expr: `max by (outbox) (${of(payments('outbox_overdue_seconds'))})`, legend: '{{outbox}}' },
      ],
    },
    {
      title: 'Delivery attempts',
      description: 'Attempts to deliver events, to send mail and to instruct the processor, by outcome.',
      unit: 'ops',
      queries: [
        { expr: sum(rate(payments('webhook_tries_total')), 'outcome'), legend: 'webhook {{outcome}}' },
        { expr: sum(rate(payments('mails_total')), 'outcome'), legend: 'mail {{outcome}}' },
        {
          expr: sum(rate(payments('processor_instructions_total')), 'outcome'),
          legend: 'processor {{outcome}}',
        },
      ],
    },
    {
      title: 'Database',
      description: 'Transactions of the database, by outcome.',
      unit: 'ops',
      queries: [
        { expr: sum(rate(payments('database_transactions_total')), 'outcome'), legend: '{{outcome}}' },
      ],
    },
    {
      title: 'Time of a transaction of the database',
      description: 'With the wait for a connection.',
      unit: 's',
      queries: quantiles(payments('database_transaction_seconds')),
    },
    {
      title: 'Idempotent replays',
      description: 'Requests that were repeated with their Idempotency-Key.',
      unit: 'ops',
      queries: [{ expr: sum(rate(payments('idempotency_replays_total')), 'pod'), legend: '{{pod}}' }],
    },
  ],
}

const datasource: JsonObject = { type: 'prometheus', uid: `\${datasource}` }

/** Returns the dashboard in the form that Grafana imports. */
export function dashboard(): JsonObject {
  return {
    title: 'Tollway',
    uid: 'tollway',
    description: 'The operator, its feed, the rate limit pods, the brokers, and payments.',
    tags: ['tollway'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: variables },
    panels: layOut([
      operatorRow,
      feedRow,
      decisionsRow,
      latencyRow,
      backendRow,
      sharesRow,
      streamsRow,
      paymentsRow,
    ]),
  }
}

const variables: readonly JsonObject[] = [
  { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' },
  variable('namespace', 'Namespace', 'label_values(tollway_operator_leader, namespace)'),
  {
    ...variable('domain', 'Domain', `label_values(${of(`${limit}_total_hits`)}, domain)`),
    multi: true,
    includeAll: true,
    allValue: '.*',
  },
]

/** Returns a dashboard variable, whose values Grafana queries again when the time range changes. */
function variable(name: string, label: string, query: string): JsonObject {
  return { name, label, type: 'query', datasource, query: { query, refId: name }, refresh: 2 }
}

const [columns, panelWidth, panelHeight, rowHeight] = [24, 8, 8, 1]

/**
 * Returns the rows below each other, and the panels of each row from left to right, as Grafana positions
 * them.
 */
function layOut(rows: readonly Row[]): readonly JsonObject[] {
  const perLine = columns / panelWidth
  const laid: JsonObject[] = []
  let top = 0
  for (const { title, panels } of rows) {
    laid.push({
      id: laid.length + 1,
      type: 'row',
      title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y: top, w: columns, h: rowHeight },
    })
    top += rowHeight
    for (const [index, panel] of panels.entries()) {
      const [x, y] = [(index % perLine) * panelWidth, top + Math.floor(index / perLine) * panelHeight]
      laid.push({
        id: laid.length + 1,
        ...timeSeries(panel),
        gridPos: { x, y, w: panelWidth, h: panelHeight },
      })
    }
    top += Math.ceil(panels.length / perLine) * panelHeight
  }
  return laid
}

function timeSeries({ title, description, queries, unit }: Panel): JsonObject {
  return {
    type: 'timeseries',
    title,
    description,
    datasource,
    fieldConfig: { defaults: { min: 0, ...(unit && { unit }) }, overrides: [] },
    options: { tooltip: { mode: 'multi', sort: 'desc' } },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      expr,
      legendFormat: legend,
    })),
  }
}
