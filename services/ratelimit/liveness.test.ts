import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freePorts } from '../../test/support/free-ports.ts'
import { startRateLimit } from '../../test/support/rate-limit-process.ts'
import { waitFor } from '../../test/support/wait-for.ts'

for (const workers of ['1', '2']) {
  test(`livez succeeds without a configuration and a backend, with WORKERS=${workers}`, async t => {
    const [metricsPort = 0, nobodysPort = 0] = await freePorts(2)
    const { program, health } = await startRateLimit(t, {
      WORKERS: workers,
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${nobodysPort}`,
      KVSTORE_SOCKET_TYPE: 'tcp',
      KVSTORE_URL: `127.0.0.1:${nobodysPort}`,
      USE_PULLSTATS: 'true',
      PULLSTATS_ADDR: `127.0.0.1:${metricsPort}`,
      DRAIN_DELAY: '0s',
    })
    const ask = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${metricsPort}${path}`)
      return { status: response.status, text: await response.text() }
    }
    await waitFor('the port of the metrics', async () => (await ask('/livez')).status === 200, 30_000)
    assert.equal((await ask('/metrics')).status, 200)
    await assert.rejects(health(), 'the port for calls is not open yet')
    assert.equal(program.process.exitCode, null)
  })
}
