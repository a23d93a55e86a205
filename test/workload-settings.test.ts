import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settings as brokerSettings } from '@tollway/broker/settings.ts'
import { readSettings, type Setting } from '@tollway/chassis/settings.ts'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { settings as paymentsSettings } from '@tollway/payments/settings.ts'
import { settings as rateLimitSettings } from '@tollway/ratelimit/settings.ts'
import { makeEnv } from '../operator/environments/kubernetes/infrastructure/objects/pod-template.ts'
import type { ServiceName, Workload } from '../operator/model.ts'
import { brokerWorkload } from '../operator/workloads/broker.ts'
import { paymentsWorkload } from '../operator/workloads/payments.ts'
import { rateLimitWorkload } from '../operator/workloads/rate-limit.ts'
import { clusterWorkloads } from '../operator/workloads/registry.ts'
import type { SharedState } from '../operator/workloads/service.ts'
import { listSettingNames } from '../operator/workloads/service-env.ts'

const tables: Readonly<Record<ServiceName, Readonly<Record<string, Setting<unknown>>>>> = {
  ratelimit: rateLimitSettings,
  broker: brokerSettings,
  payments: paymentsSettings,
}

const onOneMachine = {
  replicas: 1,
  feedAddress: '127.0.0.1:18000',
  logLevel: 'info',
  stopGraceMs: 10_000,
  env: {},
}
const states: readonly SharedState[] = [{ type: 'memory' }, { type: 'redis', urlFile: '/state/redis-url' }]

function inCluster(type: SharedState['type']): readonly Workload[] {
  const state = { type, urlSecret: { name: 'redis' } }
  const judged = validateClusterConfig({
    rateLimit: { replicas: 1, backend: state },
    broker: { enabled: true, replicas: 1, streamLog: state },
    payments: { enabled: true, database: { urlSecret: { name: 'postgres' } } },
  })
  if ('problems' in judged) throw new Error(JSON.stringify(judged.problems))
  return clusterWorkloads(judged.value, 'tollway-system').map(({ workload }) => workload)
}

const isFed = ({ service }: Workload) => service !== 'payments'

const cases = states.flatMap(state => [
  ...[
    rateLimitWorkload({
      ...onOneMachine,
      backend: state,
      grpcPort: 8081,
      httpPort: 8080,
      envoyTimeoutMs: 20,
    }),
    brokerWorkload({ ...onOneMachine, streamLog: state, grpcPort: 8082 }),
  ].map(workload => ({ place: 'on one machine', state, workload })),
  ...inCluster(state.type)
    .filter(isFed)
    .map(workload => ({ place: 'in a cluster', state, workload })),
])

const ofThePod = /^POD_(IP|NAME|NAMESPACE|UID)$/

for (const { place, state, workload } of cases) {
  const table = tables[workload.service]
  const what = `${workload.name} ${place}, with ${state.type}`

  test(`${what}, has only settings that the program knows`, () => {
    const known = new Set(Object.values(table).flatMap(listSettingNames))
    const given = makeEnv(workload, { extraEnv: [] }).map(({ name }) => name)
    assert.deepEqual(
      given.filter(name => !known.has(name) && !ofThePod.test(name)),
      [],
    )
  })

  test(`${what}, has only values that the program accepts`, () => {
    const read = readSettings(table, workload.env, () => 'redis://localhost:6379')
    assert.ok('value' in read, JSON.stringify(read))
    const { grpcPort, xdsServer } = read.value as { grpcPort: number; xdsServer: { port: number } }
    assert.equal(grpcPort, workload.ports.find(({ name }) => name === 'grpc')?.port)
    assert.equal(xdsServer.port, 18_000)
  })
}

test('the backend is the configured one', () => {
  for (const { state, workload } of cases) {
    const { env } = workload
    assert.equal(env[workload.service === 'broker' ? 'STREAM_LOG' : 'BACKEND_TYPE'], state.type)
  }
})

const paymentsOnOneMachine = paymentsWorkload({
  ...{ replicas: 1, port: 8090, provisionPort: 8091, logLevel: 'info', stopGraceMs: 10_000, env: {} },
  storage: { type: 'embedded', stateDir: '/state' },
  provisionAccess: { type: 'token', tokenFile: '/state/provision-token' },
  rateLimit: { address: '127.0.0.1:8081', domain: 'tollway-payments-api' },
})
const payments = [paymentsOnOneMachine, ...inCluster('redis').filter(workload => !isFed(workload))]

for (const [index, workload] of payments.entries()) {
  test(`payments ${index === 0 ? 'on one machine' : 'in a cluster'} accepts its settings`, () => {
    const known = new Set(Object.values(paymentsSettings).flatMap(listSettingNames))
    const given = makeEnv(workload, { extraEnv: [] }).map(({ name }) => name)
    assert.deepEqual(
      given.filter(name => !known.has(name) && !ofThePod.test(name)),
      [],
    )
    const read = readSettings(paymentsSettings, workload.env, path => `the content of ${path}, long enough`)
    assert.ok('value' in read, JSON.stringify(read))
    assert.equal(read.value.port, workload.ports.find(({ name }) => name === 'http')?.port)
    assert.equal(read.value.provisionPort, 8091)
  })
}
