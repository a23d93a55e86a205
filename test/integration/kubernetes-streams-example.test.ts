import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CORE_SCHEMA, dump, loadAll } from 'js-yaml'
import { type Program, startProgram } from '../support/program.ts'
import { root, startTollway } from '../support/tollway.ts'

/** The programs of examples/kubernetes/streams with its route and tokens, without a cluster. */

const example = join(root, 'examples/kubernetes/streams')

interface Resource {
  readonly kind: string
  readonly stringData?: Readonly<Record<string, string>>
}

const resources = loadAll(readFileSync(join(example, 'route.yaml'), 'utf8'), {
  schema: CORE_SCHEMA,
}) as Resource[]
const ofTollway = resources.filter(({ kind }) => ['Secret', 'AnimationStreamRoute'].includes(kind))
const tokens = ofTollway.find(({ kind }) => kind === 'Secret')?.stringData ?? {}

function start(t: TestContext, program: string, port: number, token = ''): Program {
  const env = { BROKER_URL: `http://127.0.0.1:${port}`, STREAM_ID: 'kiosk-1', TOKEN: token }
  const started = startProgram(process.execPath, [join(example, 'programs', program)], { env })
  t.after(() => started.end('SIGKILL'))
  return started
}

test('the route of the example accepts the requests of its producer, and consumers receive them', async t => {
  const manifests = { 'route.yaml': ofTollway.map(resource => dump(resource)).join('---\n') }
  const { ready, brokerPort } = await startTollway(t, manifests, ['--broker-replicas', '1'])
  await ready()
  const consumers = [1, 2].map(() => start(t, 'consume.mjs', brokerPort, tokens['pull']))
  const producer = start(t, 'produce.mjs', brokerPort, tokens['push'])
  await producer.said(/^pushed utterance-\w+: SUCCESS "62 messages"$/m)
  const [, request = ''] = /^pushed (\S+):/m.exec(producer.output()) ?? []
  for (const consumer of consumers)
    await consumer.said(`received ${request}: 60 frames, 2.0 s of sound, SUCCESS "all is said"\n`)
  const stranger = start(t, 'produce.mjs', brokerPort, tokens['pull'])
  await stranger.said(/^gRPC status 7 the route kiosk\/kiosk does not accept this token$/m)
  for (const program of [producer, ...consumers]) assert.equal(await program.end('SIGTERM'), 0)
})
