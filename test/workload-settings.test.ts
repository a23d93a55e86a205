import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings, type Setting } from '@tollway/chassis/settings.ts'
import { settings } from '@tollway/ratelimit/settings.ts'
import { rateLimitWorkload } from '../operator/translate/rate-limit-workload.ts'

const table: readonly Setting<unknown>[] = Object.values(settings)
const names = new Set(
  table.flatMap(({ name, aliases = [], secret }) => {
    const all = [name, ...aliases]
    return secret ? [...all, ...all.map(one => `${one}_FILE`)] : all
  }),
)

for (const backend of [{ type: 'memory' }, { type: 'redis', urlFile: '/state/redis-url' }] as const) {
  const { env } = rateLimitWorkload({
    replicas: 1,
    backend,
    grpcPort: 8081,
    httpPort: 8080,
    feedAddress: '127.0.0.1:18000',
    logLevel: 'info',
    stopGraceMs: 10_000,
    env: {},
  })

  test(`with ${backend.type}, the service knows every setting that its workload has`, () => {
    const strange = Object.keys(env).filter(name => !names.has(name))
    assert.deepEqual(strange, [])
  })

  test(`with ${backend.type}, the service takes the values`, () => {
    const read = readSettings(settings, env, () => 'localhost:6379')
    assert.ok('value' in read, JSON.stringify(read))
    assert.equal(read.value.backendType, backend.type)
    assert.equal(read.value.configType, 'GRPC_XDS_SOTW')
    assert.deepEqual(read.value.xdsServer, { host: '127.0.0.1', port: 18_000 })
    assert.equal(read.value.grpcPort, 8081)
  })
}
