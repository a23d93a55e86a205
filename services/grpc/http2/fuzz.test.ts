import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { frame, request, startRig, texts, waitFor } from '../server-contract/support.ts'
import { createSocketServer } from '../socket-server.ts'
import { statusCodes } from '../status.ts'
import { frameBytes, frameTypes, wordBytes } from './frames.ts'
import { encodeHeaderBlock } from './hpack-encoder.ts'
import { openRawClient, requestFields, settingsPayload } from './testdata/raw-client.ts'

const seed = Number(process.env['FC_SEED'] ?? 20_260_401)
const runs = Number(process.env['FC_RUNS'] ?? 200)
/** Together 10,000 frames with the default number of runs. */
const framesInRun = 50

const echo = texts.unary('/test.Test/Echo', text => text)
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)

const streamId = fc.constantFrom(0, 1, 1, 3, 3, 5, 7, 2, 2 ** 31 - 1)
const headers = fc
  .constantFrom(echo.path, echoEach.path, '/nobody')
  .map(path => encodeHeaderBlock(requestFields(path, [['grpc-timeout', '1S']])))
const payload = fc.oneof(
  { weight: 4, arbitrary: headers },
  { weight: 4, arbitrary: fc.string({ maxLength: 30 }).map(text => frame(text)) },
  { weight: 1, arbitrary: fc.constantFrom(0, 1, 8, 65_535, 2 ** 31 - 1).map(word => wordBytes(word)) },
  { weight: 1, arbitrary: fc.tuple(fc.nat(7), fc.nat(70_000)).map(setting => settingsPayload(setting)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 40 }) },
)
const anyFrame = fc
  .record({
    type: fc.oneof(fc.constantFrom(...Object.values(frameTypes)), fc.nat(255)),
    flags: fc.oneof(fc.constantFrom(0, 1, 4, 5), fc.nat(255)),
    streamId,
    payload,
  })
  .map(each => frameBytes(each.type, each.flags, each.streamId, each.payload))
/** Frames that fit together, so that the mutated ones meet streams that are open. */
const call = fc
  .tuple(fc.constantFrom(1, 3, 5, 7, 9, 11), headers, fc.boolean())
  .map(([id, block, ends]) =>
    Buffer.concat([
      frameBytes(frameTypes.HEADERS, 4, id, block),
      frameBytes(frameTypes.DATA, ends ? 1 : 0, id, frame('text')),
    ]),
  )
const mutation = fc.record({ at: fc.nat(2000), byte: fc.nat(255) })

function mutate(bytes: Buffer, mutations: readonly { readonly at: number; readonly byte: number }[]): Buffer {
  const mutated = Buffer.from(bytes)
  for (const { at, byte } of mutations) if (at < mutated.length) mutated.writeUInt8(byte, at)
  return mutated
}

test('mutated frames cost at most their connection', { timeout: 60_000 + runs * 100 }, async t => {
  const { client, port, server, defects } = await startRig(t, createSocketServer, [echo, echoEach])
  const frames = fc.array(fc.oneof({ weight: 3, arbitrary: call }, { weight: 2, arbitrary: anyFrame }), {
    minLength: framesInRun,
    maxLength: framesInRun,
  })
  await fc.assert(
    fc.asyncProperty(
      frames,
      fc.array(mutation, { maxLength: 4 }),
      fc.nat(1000),
      async (parts, where, cut) => {
        const caller = await openRawClient(t, port)
        const bytes = mutate(Buffer.concat(parts), where)
        caller.write(bytes.subarray(0, cut))
        caller.socket.end(bytes.subarray(cut))
        const { status, message } = await request(client, echo.path, 'others')
        assert.equal(status.code, statusCodes.OK)
        assert.equal(Buffer.from(message ?? []).toString(), 'others')
        await waitFor('a closed connection', caller.isClosed)
        assert.deepEqual(defects, [])
      },
    ),
    { seed, numRuns: runs },
  )
  await waitFor('no call', () => server.activeCalls === 0)
})
