import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeHeader } from '../../services/broker/wire/testing/encode-messages.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { findProgram } from '../support/require-server.ts'
import { root, startTollway } from '../support/tollway.ts'

const examples = join(root, 'examples/notifications')

/** The receivers of examples/notifications, which use no code of the broker. */
for (const [name, command] of [
  ['receive.ts', process.execPath],
  ['receive.py', findProgram('python3')],
] as const) {
  test(`${name} accepts what brokers sign, and nothing else`, { skip: command === undefined }, async t => {
    const [port = 0] = await freePorts(1)
    const receiver = startProgram(command ?? '', [join(examples, name), `${port}`])
    t.after(() => receiver.end('SIGKILL'))
    await receiver.said('receiving')
    const url = `http://127.0.0.1:${port}/streams`
    const route = readFileSync(join(examples, 'route.yaml'), 'utf8')
    const settings = ['WEBHOOK_ALLOW_HTTP=true', 'WEBHOOK_ALLOWED_CIDRS=127.0.0.0/8']
    const tollway = await startTollway(
      t,
      { 'route.yaml': route.replace('http://127.0.0.1:8099/streams', url) },
      ['--broker-replicas', '1', ...settings.flatMap(setting => ['--broker-env', setting])],
    )
    await tollway.ready()
    const push = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`).push()
    const animationIds = { streamId: 'demo-1', requestId: 'r1', targetObjectId: '' }
    push.write(encodeHeader({ animationIds, sourceServiceId: '' }))
    await push.headers
    push.cancel()
    await receiver.said('stream.begun default/demo demo-1 r1\n')
    await receiver.said(/^stream\.ended default\/demo demo-1 r1 lost the producer /m)
    const timestamp = Math.floor(Date.now() / 1000)
    for (const headers of [
      {},
      { 'webhook-id': 'a', 'webhook-timestamp': `${timestamp}`, 'webhook-signature': 'v1,AAAA v1, v2' },
    ]) {
      const { status } = await fetch(url, { method: 'POST', headers, body: '{}' })
      assert.equal(status, 401)
    }
  })
}
