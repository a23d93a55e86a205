import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { createGrpcServer } from '../../services/grpc/server/create-server.ts'
import { findProgram } from '../support/require-server.ts'

/**
 * h2spec tests an HTTP/2 server against RFC 9113 and RFC 7541. Its requests are not gRPC, so they are
 * answered with 415; the frames are handled the same.
 */
const echo: AnyMethod = {
  path: '/test.Test/Echo',
  kind: 'unary',
  decode: bytes => bytes,
  encode: message => message,
  handle: message => message,
}

test('h2spec finds no failure, including strict cases', { timeout: 120_000 }, async t => {
  const h2spec = findProgram('h2spec')
  if (h2spec === undefined) {
    // Building it needs Go, which not every machine has, so its absence is never a failure.
    process.stderr.write('SKIPPED: h2spec is not on the PATH\n')
    return t.skip('h2spec is not on the PATH')
  }
  const defects: unknown[] = []
  const server = createGrpcServer({ methods: [echo], onDefect: (_, error) => defects.push(error) })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const args = ['--strict', '--host', bound.host, '--port', String(bound.port), '--path', echo.path]
  const { stdout } = await promisify(execFile)(h2spec, args, { maxBuffer: 2 ** 24 }).catch(error => error)
  assert.match(stdout, /\d+ tests, \d+ passed, 0 skipped, 0 failed/, stdout)
  assert.deepEqual(defects, [])
})
