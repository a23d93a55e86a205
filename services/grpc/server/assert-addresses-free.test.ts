import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { assertAddressesFree } from './assert-addresses-free.ts'

const host = '127.0.0.1'
const anyPort = { reusePort: false, grpcUnixSocket: '', grpcHost: host, grpcPort: 0 }

test('every setting whose address cannot be bound is named', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ host, port: 0 }, resolve))
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  const taken = `listen EADDRINUSE: address already in use ${host}:${port}`
  const debug = { name: 'DEBUG_PORT', host, port }

  await assertAddressesFree(anyPort, [{ ...debug, port: 0 }])
  await assert.rejects(assertAddressesFree({ ...anyPort, grpcPort: port }, [debug]), {
    message: `GRPC_PORT: ${taken}; DEBUG_PORT: ${taken}`,
  })
  // The gRPC port need not be free if processes share it, or a socket is used instead.
  await assertAddressesFree({ ...anyPort, grpcPort: port, reusePort: true }, [])
  const elsewhere = { ...anyPort, grpcPort: port, grpcUnixSocket: '/proc/none/socket' }
  await assert.rejects(assertAddressesFree(elsewhere, [debug]), {
    message: `GRPC_UDS: /proc/none/socket: its folder cannot be written to: ENOENT; DEBUG_PORT: ${taken}`,
  })
})

test('a unix socket needs a path that a server can have', async t => {
  const folder = temporaryFolder('tollway')
  writeFileSync(join(folder, 'file'), '')
  const look = (grpcUnixSocket: string) => assertAddressesFree({ ...anyPort, grpcUnixSocket }, [])

  await look(join(folder, 'socket'))
  const served = createServer()
  t.after(() => served.close())
  await new Promise<void>(resolve => served.listen(join(folder, 'served'), resolve))
  await assert.rejects(look(join(folder, 'served')), /: another process listens on it$/)
  await assert.rejects(look(join(folder, 'file')), /: the file is not a socket$/)
  await assert.rejects(look(join(folder, 'x'.repeat(108))), / bytes, and at most 10[37] are allowed$/)
})
