import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { HealthTable } from '@tollway/grpc/server/health.ts'
import type { AnyMethod, Codec, GrpcLimits, ListenAddress, ServerTls } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { startProgram } from '../support/program.ts'
import { findProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** A Python with grpcio and grpcio-status: that of the environment, or the first of the PATH. */
function findPython(): string | undefined {
  const candidates = [process.env['PYTHON'], findProgram('python3')]
  return candidates.find(path => path && spawnSync(path, ['-c', 'import grpc, grpc_status']).status === 0)
}

const bytes: Codec<Uint8Array, Uint8Array> = { decode: message => message, encode: message => message }

/** `google.rpc.Status` with the code NOT_FOUND. */
function richStatus(message: string): Uint8Array {
  const text = Buffer.from(message)
  return Buffer.concat([Buffer.of(0x08, 5, 0x12, text.length), text])
}

const notHere = 'nöt here: 100%\n'

const methods: readonly AnyMethod[] = [
  { ...bytes, path: '/test.Test/Echo', kind: 'unary', handle: message => message },
  { ...bytes, path: '/test.Test/EchoEach', kind: 'bidi', handle: requests => requests },
  {
    ...bytes,
    path: '/test.Test/Mirror',
    kind: 'unary',
    async handle(message, call) {
      const own = new Map([...call.metadata].filter(([name]) => name.startsWith('x-')))
      call.sendHeaders(own)
      call.setTrailers(own)
      return message
    },
  },
  {
    ...bytes,
    path: '/test.Test/Fail',
    kind: 'unary',
    handle() {
      throw new GrpcError('NOT_FOUND', notHere, new Map([['grpc-status-details-bin', [richStatus(notHere)]]]))
    },
  },
  {
    ...bytes,
    path: '/test.Test/Defect',
    kind: 'unary',
    handle() {
      throw new Error('a defect')
    },
  },
  {
    ...bytes,
    path: '/test.Test/Endless',
    kind: 'unary',
    handle: (message, { signal }) =>
      new Promise(resolve => signal.addEventListener('abort', () => resolve(message))),
  },
  {
    ...bytes,
    path: '/test.Test/Join',
    kind: 'client-stream',
    async handle(requests: AsyncIterable<Uint8Array>) {
      const parts: Uint8Array[] = []
      for await (const part of requests) parts.push(part)
      return Buffer.concat(parts)
    },
  },
  {
    ...bytes,
    path: '/test.Test/Repeat',
    kind: 'server-stream',
    async *handle(message) {
      for (let index = 0; index < 100; index += 1) yield message
    },
  },
  {
    ...bytes,
    path: '/test.Test/Forever',
    kind: 'server-stream',
    async *handle(message) {
      for (;;) yield message
    },
  },
]

/** A server that prints only unintended defects. */
function startServer(t: TestContext, limits: Partial<GrpcLimits> = {}) {
  const health = new HealthTable()
  health.set('', true)
  const onDefect = (path: string, error: unknown) => {
    if (path !== '/test.Test/Defect') assert.fail(`${path}: ${error}`)
  }
  const server = createGrpcServer({ methods, limits, health, onDefect })
  t.after(() => server.drain(0))
  return {
    server,
    async listen(address: ListenAddress): Promise<string> {
      const bound = await server.listen(address)
      return 'port' in bound ? `${bound.host}:${bound.port}` : `unix:${bound.socketPath}`
    },
  }
}

test('grpcio of Python gets the behaviour of gRPC, over TCP, a unix socket and TLS', async t => {
  const python = findPython()
  if (python === undefined) {
    const reason = 'no python3 with grpcio and grpcio-status, neither PYTHON nor on the PATH'
    assert.notEqual(process.env['REQUIRE_SERVERS'], '1', reason)
    process.stderr.write(`SKIPPED: ${reason}\n`)
    return t.skip(reason)
  }
  const folder = temporaryFolder('grpcio')
  const fleet = createAuthority('fleet')
  const own = fleet.issue('server.test')
  const rejections: string[] = []
  const tls: ServerTls = {
    credentials: () => own,
    requireClientCert: true,
    onChange: () => () => {},
    onRejected: error => rejections.push(error.message),
  }
  const { server, listen } = startServer(t)
  const young = startServer(t, { maxConnectionAgeMs: 30 })
  const host = '127.0.0.1'
  const calls = JSON.stringify({
    plain: await listen({ host, port: 0 }),
    unix: await listen({ socketPath: join(folder, 'socket') }),
    secure: await listen({ host, port: 0, tls }),
    young: await young.listen({ host, port: 0 }),
    ...fleet.issue('client.test'),
  })
  const script = fileURLToPath(new URL('grpcio-calls.py', import.meta.url))
  const program = startProgram(python, [script, calls])
  t.after(async () => void (await program.end('SIGKILL')))
  const code = await program.exited()
  assert.equal(code, 0, program.output())
  assert.match(rejections.join(), /did not return a certificate/)
  await waitFor('the end of every call', () => server.activeCalls === 0)
})
