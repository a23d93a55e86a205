import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type OperatorMetrics = ReturnType<typeof createOperatorMetrics>

interface MetricsSources {
  readonly isLeader: () => boolean
  readonly connectedPods: () => number
  readonly statusesWaiting: () => number
  readonly resources: () => { readonly ready: number; readonly notReady: number }
  /** Returns the number of contested objects; see `ContestedObject`. */
  readonly contestedObjects: () => number
  /** Returns, by service, the number of pods that accept calls while their backend fails. */
  readonly failingBackends: () => Readonly<Record<string, number>>
  /** Returns, by kind, whether requests for its resources fail and are repeated. */
  readonly failingKinds: () => Readonly<Record<string, boolean>>
  /** Returns the problems of the certificates; empty if there are none. */
  readonly certificateProblem: () => string
}

export function createOperatorMetrics(sources: MetricsSources) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry, prefix: 'tollway_operator_' })
  openGauges(sources, registry)
  const reconcile = new Histogram({
    name: 'tollway_reconcile_seconds',
    help: 'The duration of a reconcile of all resources.',
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    registers,
  })
  const failures = new Counter({
    name: 'tollway_reconcile_failures_total',
    help: 'Reconciles that failed.',
    registers,
  })
  const propagation = new Histogram({
    name: 'tollway_propagation_seconds',
    help: 'The time from the first read of a change until all pods that accept calls enforce it.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30],
    registers,
  })
  const writes = new Counter({
    name: 'tollway_status_writes_total',
    help: 'Writes of statuses, by outcome.',
    labelNames: ['outcome'],
    registers,
  })
  const requests = new Counter({
    name: 'tollway_api_requests_total',
    help: 'Requests to the API server, by method and resource.',
    labelNames: ['method', 'resource'],
    registers,
  })
  return {
    contentType: registry.contentType,
    render: (): Promise<string> => registry.metrics(),
    reconciled(seconds: number, ok: boolean): void {
      reconcile.observe(seconds)
      if (!ok) failures.inc()
    },
    /** Records the time from when a generation was first seen until all pods enforce it. */
    propagated: (seconds: number) => propagation.observe(seconds),
    requested: (method: string, resource: string) => requests.inc({ method, resource }),
    statusWritten: (ok: boolean) => writes.inc({ outcome: ok ? 'ok' : 'error' }),
  }
}

function openGauges(sources: MetricsSources, registry: Registry): void {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  gauge('tollway_operator_leader', 'Whether this operator is the leader.', () => (sources.isLeader() ? 1 : 0))
  gauge(
    'tollway_feed_connected_pods',
    'Pods that have a stream of the feed here, or at an operator that reports here.',
    sources.connectedPods,
  )
  gauge(
    'tollway_certificate_problem',
    'Whether the operator cannot read, write or renew a certificate of the feed.',
    () => (sources.certificateProblem() === '' ? 0 : 1),
  )
  gauge(
    'tollway_contested_objects',
    'Objects that another program changes as often as this operator repairs them.',
    sources.contestedObjects,
  )
  new Gauge({
    name: 'tollway_backend_failing_pods',
    help: 'Pods that accept calls while their backend fails, by service.',
    labelNames: ['service'],
    registers,
    collect() {
      for (const [service, pods] of Object.entries(sources.failingBackends())) this.set({ service }, pods)
    },
  })
  new Gauge({
    name: 'tollway_kind_failing',
    help: 'Whether a list, a watch or a write of the resources of a kind fails and is repeated, by kind.',
    labelNames: ['kind'],
    registers,
    collect() {
      for (const [kind, fails] of Object.entries(sources.failingKinds())) this.set({ kind }, Number(fails))
    },
  })
  gauge('tollway_status_queue', 'Statuses that wait to be written.', sources.statusesWaiting)
  new Gauge({
    name: 'tollway_resources',
    help: 'Resources, by whether they are ready.',
    labelNames: ['ready'],
    registers,
    collect() {
      const { ready, notReady } = sources.resources()
      this.set({ ready: 'true' }, ready)
      this.set({ ready: 'false' }, notReady)
    },
  })
}
