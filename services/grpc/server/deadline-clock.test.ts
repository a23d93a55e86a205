import assert from 'node:assert/strict'
import { test } from 'node:test'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { Call } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import { createGrpcServer } from './create-server.ts'
import { openStream, startRig, texts } from './testing/contract/support.ts'

async function untilAborted({ signal }: Call): Promise<string> {
  if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
  return ''
}

for (const kind of ['unary', 'server-stream'] as const) {
  test(`a step of the machine's clock does not change deadlines: ${kind}`, async t => {
    const calls: Call[] = []
    const path = '/test.Test/Wait'
    const wait = (_: string, call: Call) => {
      calls.push(call)
      return untilAborted(call)
    }
    async function* stream(request: string, call: Call) {
      yield await wait(request, call)
    }
    const method = kind === 'unary' ? texts.unary(path, wait) : texts.serverStream(path, stream)
    const { client } = await startRig(t, createGrpcServer, [method])
    const caller = openStream(client, path, { timeoutMs: 60_000 })
    caller.stream.write(Buffer.alloc(0))
    caller.stream.end()
    await waitFor('the call', () => calls.length === 1)
    const stepMs = 3_600_000
    const { now } = Date
    t.mock.method(Date, 'now', () => now() + stepMs)
    caller.stream.cancel()
    const [call] = calls
    await waitFor('the end of the call', () => call?.signal.aborted === true)
    const { reason } = call?.signal ?? {}
    assert.ok(reason instanceof GrpcError)
    assert.equal(reason.code, statusCodes.CANCELLED, reason.message)
  })
}
