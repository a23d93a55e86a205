import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod, ServerTls } from '@tollway/grpc/server.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { frame } from '../../services/grpc/server/testing/contract/support.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** h2load is part of nghttp2, an independent HTTP/2 implementation; it runs at full speed. */
const calls = 20_000
const body = frame('a message')
const echo: AnyMethod = {
  path: '/test.Test/Echo',
  kind: 'unary',
  decode: bytes => bytes,
  encode: message => message,
  handle: message => message,
}

const own = createAuthority('fleet').issue('server.test')
const tls: ServerTls = { credentials: () => own, requireClientCert: false, onChange: () => () => {} }

for (const [scheme, secured] of [
  ['http', undefined],
  ['https', tls],
] as const) {
  test(`h2load has ${calls} calls over ${scheme}, and each is answered`, async t => {
    const h2load = requireProgram(t, 'h2load')
    if (!h2load) return
    const folder = temporaryFolder('h2load')
    writeFileSync(join(folder, 'message'), body)
    const server = createGrpcServer({ methods: [echo], onDefect: (_, error) => assert.fail(String(error)) })
    t.after(() => server.drain(0))
    const bound = await server.listen({ host: '127.0.0.1', port: 0, tls: secured })
    assert.ok('port' in bound)
    const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers']
    const load = ['-n', `${calls}`, '-c', '10', '-m', '100', '-d', join(folder, 'message')]
    const url = `${scheme}://127.0.0.1:${bound.port}${echo.path}`
    const { stdout } = await promisify(execFile)(h2load, [...load, ...headers, url])
    const all = new RegExp(`${calls} done, ${calls} succeeded, 0 failed, 0 errored, 0 timeout`)
    assert.match(stdout, all, stdout)
    // Each call has headers, a message and trailers: a rejected call has no body.
    assert.match(stdout, new RegExp(`\\(${calls * body.length}\\) data`), stdout)
  })
}
