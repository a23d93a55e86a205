import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiVersion } from '../../operator/environments/kubernetes/api/custom-resources.ts'
import { root } from '../support/tollway.ts'
import { apply, eventually, kubectl, pods, restart } from './cluster.ts'
import { createFigures } from './figures.ts'
import { addressOf, brokers, followReadyBrokers, readyBrokers } from './ready-brokers.ts'
import { ensureInstalled, system } from './release.ts'
import { pushRequest, receivesWhole, startConsumer, startProducer, wholeRequest } from './streams-load.ts'
import { withTestImages } from './test-images.ts'

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe('animation streams in a cluster', { skip, timeout: 600_000 }, () => {
  const figures = createFigures('streams')
  const found = followReadyBrokers(system)

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'studio' } })
    await apply(avatars)
    await kubectl('-n', 'studio', 'wait', '--for=condition=Ready', 'asr/avatars', '--timeout=120s')
    found.start()
  })
  after(async () => {
    await found.stop()
    await kubectl('delete', 'namespace', 'studio', '--wait=false')
    figures.write()
  })

  it('has two brokers, which both enforce a route', async () => {
    assert.equal((await readyBrokers(system)).length, 2)
    assert.match(await kubectl('-n', 'studio', 'get', 'asr'), /avatars .*\bTrue +2\/2 /)
  })

  it('delivers what is pushed to one broker to the consumers of the other', async t => {
    const [one = '', other = ''] = (await readyBrokers(system)).map(addressOf)
    const consumer = startConsumer(async () => other)
    t.after(consumer.stop)
    // The load is reported every few seconds.
    const frames = 900
    const pushed = pushRequest(async () => one, 'across', frames)
    await eventually('the stream in the status', async () =>
      /avatars +s +1 +1 +True +2\/2 /.test(await kubectl('-n', 'studio', 'get', 'asr')),
    )
    assert.equal(await pushed, 'SUCCESS')
    await receivesWhole(consumer, 'across', frames)
  })

  it('delivers the streams of the unchanged examples/kubernetes/streams', async () => {
    const example = 'kiosk'
    await apply(withTestImages(await kubectl('kustomize', join(root, 'examples/kubernetes/streams'))))
    await kubectl('-n', example, 'wait', '--for=condition=Ready', 'asr/kiosk', '--timeout=90s')
    for (const name of ['producer', 'consumer'])
      await kubectl('-n', example, 'rollout', 'status', `deploy/${name}`, '--timeout=90s')
    const consumers = await pods(example, 'app=consumer')
    assert.equal(consumers.length, 2)
    for (const { metadata } of consumers) {
      await eventually(`an utterance at ${metadata.name}`, async () =>
        /^received utterance-\w+: 60 frames, 2\.0 s of sound, SUCCESS "all is said"$/m.test(
          await kubectl('-n', example, 'logs', metadata.name),
        ),
      )
    }
    await kubectl('delete', 'namespace', example, '--wait=false')
  })

  it('restarts its brokers without a lost message', async t => {
    const [one = '', other = ''] = (await readyBrokers(system)).map(addressOf)
    const consumers = [one, other].map(address => startConsumer(found.preferring(address)))
    const producer = startProducer(found.next)
    t.after(() => Promise.all([producer.stop(), ...consumers.map(({ stop }) => stop())]))
    await eventually('a request', async () => producer.answers.size > 0)
    await restart(system, 'tollway-broker', brokers)
    const done = producer.answers.size
    await eventually('a request after that', async () => producer.answers.size > done + 1)
    await producer.stop()
    assert.deepEqual(new Set(producer.answers.values()), new Set(['SUCCESS']))
    for (const consumer of consumers) {
      for (const request of producer.answers.keys()) await receivesWhole(consumer, request)
      assert.ok(consumer.moves > 0, 'its broker was replaced')
    }
    const longestMs = Math.max(...consumers.map(({ longestPauseMs }) => longestPauseMs))
    const shown = `0 of ${producer.answers.size * wholeRequest('').length * 2}`
    figures.note('messages lost in a rolling restart of the brokers', '0', shown)
    figures.note('longest pause of a stream in it', '< 300 ms', `${Math.round(longestMs)} ms`)
    // Messages are 33 ms apart. A machine that runs a whole cluster may be late, but no timeout may delay
    // them.
    assert.ok(longestMs < 5_000, `${longestMs} ms`)
  })
})

const avatars = {
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata: { name: 'avatars', namespace: 'studio' },
  spec: { match: { streamIdPrefix: 's' }, lateJoiners: { from: 'start' } },
}
