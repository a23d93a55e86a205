import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { startMemcached } from '../../test/support/memcached-server.ts'
import { rateLimitFiles, userLimit } from '../../test/support/rate-limit-files.ts'
import { type RateLimitProcess, startRateLimit } from '../../test/support/rate-limit-process.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { requireProgram } from '../../test/support/require-server.ts'
import type { ServerProcess } from '../../test/support/server-process.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const host = '127.0.0.1'

interface Backend {
  readonly program: string
  start(): Promise<ServerProcess & { readonly port: number }>
  /** Returns the settings with which the service uses this backend. */
  env(port: number): Readonly<Record<string, string>>
}

const backends: Readonly<Record<string, Backend>> = {
  Redis: {
    program: 'redis-server',
    start: () => startRedis(),
    env: port => ({ KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `${host}:${port}` }),
  },
  memcached: {
    program: 'memcached',
    start: () => startMemcached(),
    env: port => ({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `${host}:${port}` }),
  },
}

async function openBackend(t: TestContext, { program, start }: Backend) {
  if (!requireProgram(t, program)) return undefined
  const backend = await start()
  t.after(() => backend.stop())
  return backend
}

function statusOf({ debugPort }: RateLimitProcess, path: string): Promise<number> {
  return fetch(`http://${host}:${debugPort}${path}`).then(async response => {
    await response.arrayBuffer()
    return response.status
  })
}

/** Waits for the answers of the two pages: whether the process is ready, and whether the backend answers. */
function pagesAre(what: string, service: RateLimitProcess, ready: number, backend: number): Promise<true> {
  return waitFor(
    what,
    async () =>
      (await statusOf(service, '/healthcheck')) === ready &&
      (await statusOf(service, '/backend')) === backend,
    30_000,
  )
}

/** Each wait is for probes at intervals of seconds, so the cases wait together. */
describe('the watch of the backend', { concurrency: true }, () => {
  for (const [name, kind] of Object.entries(backends)) {
    for (const workers of ['1', '2']) {
      test(`a process is ready after one answer, and stays ready: ${name}, WORKERS=${workers}`, async t => {
        const backend = await openBackend(t, kind)
        if (backend === undefined) return
        await backend.kill('SIGKILL')
        const { env: files } = rateLimitFiles(userLimit('3/day'))
        const env = { ...files, ...kind.env(backend.port), WORKERS: workers, DRAIN_DELAY: '0s' }
        const service = await startRateLimit(t, env)
        await waitFor(
          'the wait for the backend',
          async () => (await statusOf(service, '/healthcheck')) === 500,
        )
        await backend.restart()
        await pagesAre('the service to be ready', service, 200, 200)
        assert.equal(await service.ask('shop', 'user', 'alice'), 200)
        await backend.kill('SIGKILL')
        await pagesAre('the failure, without a call', service, 200, 503)
        assert.notEqual(await service.ask('shop', 'user', 'alice'), 200)
        await backend.restart()
        await pagesAre('the end of the failure', service, 200, 200)
        assert.equal(await service.ask('shop', 'user', 'alice'), 200)
      })
    }
  }
})
