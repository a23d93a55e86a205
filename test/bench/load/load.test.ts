import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js'
import { driveAtRate } from './at-rate.ts'
import { driveFlatOut } from './flat-out.ts'
import { grpcLoad } from './grpc-connection.ts'
import { httpLoad } from './http-connection.ts'

const path = '/bench.Echo/Echo'
const identity = (bytes: Buffer) => bytes
const definition = { path, requestStream: false, responseStream: false } as const
const codec = {
  requestSerialize: identity,
  requestDeserialize: identity,
  responseSerialize: identity,
  responseDeserialize: identity,
}

/**
 * Starts a server that echoes a request; `error` is answered with an error, and `cut` with the end of its
 * connection.
 */
async function startEcho(t: TestContext): Promise<number> {
  const server = new Server()
  server.addService(
    { Echo: { ...definition, ...codec } },
    {
      Echo(call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) {
        if (call.request.toString() === 'cut') server.forceShutdown()
        else if (call.request.toString() === 'error') done({ code: status.UNAVAILABLE })
        else done(null, call.request)
      },
    },
  )
  t.after(() => server.forceShutdown())
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
    error === null ? resolve(port) : reject(error),
  )
  return promise
}

function message(text: string): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(text.length, 1)
  return Buffer.concat([prefix, Buffer.from(text)])
}

/** Sends the texts in turn on two connections, three at a time on each. */
function echoLoad(port: number, ...texts: readonly string[]) {
  return {
    open: grpcLoad({ port, path, expects: answer => answer.toString() === 'right' }),
    connections: 2,
    streams: 3,
    bodyOf: (call: number) => message(texts[call % texts.length] ?? ''),
  }
}

test('every call is counted, with its latency', async t => {
  const load = echoLoad(await startEcho(t), 'right')
  const { calls, failed, latenciesMs, seconds } = await driveFlatOut(load, { calls: 200 })
  assert.deepEqual([calls, failed, latenciesMs.length], [200, 0, 200])
  assert.ok(latenciesMs.every(ms => ms > 0 && ms <= seconds * 1000))
})

test('an error and another answer than the expected one are failed calls', async t => {
  const load = echoLoad(await startEcho(t), 'right', 'wrong', 'error', 'right')
  const { calls, failed } = await driveFlatOut(load, { calls: 200 })
  assert.deepEqual([calls, failed], [200, 100])
})

test('a load at a rate makes its calls in its time', async t => {
  const load = echoLoad(await startEcho(t), 'right')
  const { calls, failed, latenciesMs, seconds } = await driveAtRate(load, 500, 200)
  assert.deepEqual([calls, failed, latenciesMs.length], [100, 0, 100])
  assert.ok(seconds >= 99 / 500, `${seconds} s`)
})

test('a connection that the server ends is an error', async t => {
  const load = echoLoad(await startEcho(t), 'right', 'right', 'cut')
  await assert.rejects(driveFlatOut(load, { calls: 100 }), /the load lost a connection/)
})

test('HTTP answers with a length and in chunks are counted by their status', async t => {
  const server = createServer((request, response) => {
    if (request.url === '/length') response.writeHead(200, { 'content-length': 4 })
    else response.writeHead(request.url === '/chunks' ? 200 : 500)
    response.write('ab')
    response.end('cd')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const paths = ['/length', '/chunks', '/error']
  const bodyOf = (call: number) => Buffer.from(`GET ${paths[call % 3]} HTTP/1.1\r\nhost: x\r\n\r\n`)
  const load = { open: httpLoad({ port, status: 200 }), connections: 2, streams: 1, bodyOf }
  const { calls, failed } = await driveFlatOut(load, { calls: 90 })
  assert.deepEqual([calls, failed], [90, 30])
})
