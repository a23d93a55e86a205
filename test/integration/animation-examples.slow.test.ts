import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { animationStreamRouteKind } from '@tollway/crds/animation-stream-route.ts'
import { validateResource } from '@tollway/crds/validate.ts'
import { load } from 'js-yaml'
import { openProxy } from '../../services/grpc/server/testing/contract/support.ts'
import { freePorts } from '../support/free-ports.ts'
import { type Program, startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { findProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** Runs the programs of examples/animation with a real broker; those in Python are foreign clients. */

const examples = join(root, 'examples/animation')
const seconds = 2
const frames = 30 * seconds

/** A Python with grpcio and the published messages: that of the environment, or the first of the PATH. */
function findPython(): string | undefined {
  const candidates = [process.env['PYTHON'], findProgram('python3')]
  return candidates.find(path => path && spawnSync(path, ['-c', 'import grpc, nvidia_ace']).status === 0)
}

/** Returns undefined, and skips the test, if there is none. */
function requirePython(t: TestContext): string | undefined {
  const python = findPython()
  if (python !== undefined) return python
  const reason = 'no python3 with grpcio and nvidia-ace: set PYTHON'
  assert.notEqual(process.env['REQUIRE_SERVERS'], '1', reason)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  t.skip(reason)
  return undefined
}

const runPython = (python: string, name: string, args: readonly string[]) =>
  startProgram(python, ['-B', join(examples, 'python', name), ...args])

const runTypeScript = (name: string, args: readonly string[]) =>
  startProgram(process.execPath, [join(examples, name), ...args])

interface Broker {
  readonly target: string
  consumers(): Promise<number>
  /** Resolves with the messages that producers have sent. */
  messages(): Promise<number>
}

async function startBroker(t: TestContext): Promise<Broker> {
  const [grpcPort = 0, debugPort = 0] = await freePorts(2)
  const broker = startProgram(process.execPath, [programs.broker], {
    env: {
      ...process.env,
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: `${grpcPort}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      DRAIN_DELAY: '0s',
    },
  })
  t.after(() => broker.end('SIGKILL'))
  const page = async (path: string) => (await fetch(`http://127.0.0.1:${debugPort}${path}`)).text()
  await waitFor('the broker to take calls', async () => (await page('/healthcheck')) === 'OK')
  return {
    target: `127.0.0.1:${grpcPort}`,
    consumers: async () => Number(/consumers\.active: (\d+)/.exec(await page('/stats'))?.[1]),
    messages: async () => Number(/messages_in: (\d+)/.exec(await page('/stats'))?.[1] ?? 0),
  }
}

async function assertSucceeded(program: Program): Promise<void> {
  assert.equal(await program.exited(), 0, program.output())
}

/** One consumer of each language writes into its own folder what the producer, started last, sends. */
async function receive(
  t: TestContext,
  produce: (args: readonly string[]) => Program,
  python: string | undefined,
) {
  const broker = await startBroker(t)
  const folder = temporaryFolder('animation')
  const target = ['--target', broker.target]
  const consumers = [runTypeScript('consume.ts', [...target, '--out', join(folder, 'ts')])]
  if (python) consumers.push(runPython(python, 'consume.py', [...target, '--out', join(folder, 'py')]))
  for (const consumer of consumers) t.after(() => consumer.end('SIGKILL'))
  await waitFor('all consumers', async () => (await broker.consumers()) === consumers.length)
  const producer = produce([...target, '--seconds', `${seconds}`, '--speed', '10'])
  t.after(() => producer.end('SIGKILL'))
  await assertSucceeded(producer)
  assert.match(producer.output(), /the broker answered SUCCESS/)
  for (const consumer of consumers) {
    await assertSucceeded(consumer)
    assert.match(consumer.output(), /SUCCESS "all is said"/)
  }
  return (name: string) => readFileSync(join(folder, name))
}

test('the producer in TypeScript sends audio and blend shapes to the consumers', {
  timeout: 60_000,
}, async t => {
  const python = findPython()
  const file = await receive(t, args => runTypeScript('produce.ts', args), python)
  assert.equal(file('ts/received.wav').length, 44 + seconds * 16000 * 2)
  const lines = file('ts/received.csv').toString().trim().split('\n')
  assert.equal(lines[0], 'time_code,JawOpen,MouthFunnel,MouthSmile,BrowInnerUp,EyeBlink')
  assert.equal(lines.length, 1 + frames)
  assert.equal(
    file('ts/received.svg')
      .toString()
      .match(/<polyline/g)?.length,
    5,
  )
  if (python) assert.deepEqual(file('py/received.wav'), file('ts/received.wav'))
})

test('the producer in Python sends audio and blend shapes to the consumers', { timeout: 60_000 }, async t => {
  const python = requirePython(t)
  if (python === undefined) return
  const file = await receive(t, args => runPython(python, 'produce.py', args), python)
  assert.equal(file('py/received.wav').length, 44 + seconds * 16000 * 2)
  assert.deepEqual(file('ts/received.wav'), file('py/received.wav'))
  assert.equal(file('py/received.csv').toString().trim().split(/\r?\n/).length, 1 + frames)
})

for (const language of ['TypeScript', 'Python'] as const) {
  test(`the programs in ${language} continue after their connections are lost`, {
    timeout: 60_000,
  }, async t => {
    const python = language === 'Python' ? requirePython(t) : ''
    if (python === undefined) return
    const broker = await startBroker(t)
    const folder = temporaryFolder('animation')
    const proxy = await openProxy(t, Number(broker.target.split(':')[1]))
    const run = (name: string, ...args: string[]) => {
      const all = ['--target', `127.0.0.1:${proxy.port}`, ...args]
      const program = python === '' ? runTypeScript(`${name}.ts`, all) : runPython(python, `${name}.py`, all)
      t.after(() => program.end('SIGKILL'))
      return program
    }
    const consumer = run('consume', '--out', folder)
    await waitFor('the consumer', async () => (await broker.consumers()) === 1)
    const producer = run('produce', '--seconds', `${seconds}`)
    for (const messages of [10, 25, 40]) {
      await waitFor(`${messages} messages`, async () => (await broker.messages()) >= messages)
      proxy.cut()
    }
    await assertSucceeded(producer)
    await assertSucceeded(consumer)
    assert.match(producer.output(), new RegExp(`SUCCESS "${frames + 2} messages"`))
    assert.match(consumer.output(), /SUCCESS "all is said"/)
    const csv = readFileSync(join(folder, 'received.csv'), 'utf8').trim().split(/\r?\n/).slice(1)
    const timeCodes = csv.map(row => Math.round(30 * Number(row.split(',')[0])))
    assert.deepEqual(
      timeCodes,
      Array.from({ length: frames }, (_, frame) => frame),
    )
    assert.equal(readFileSync(join(folder, 'received.wav')).length, 44 + seconds * 16000 * 2)
  })
}

test('the programs run again with their defaults, with a new request each time', {
  timeout: 60_000,
}, async t => {
  const broker = await startBroker(t)
  const ids: string[] = []
  for (const run of ['first', 'second']) {
    const folder = temporaryFolder(run)
    const consumer = runTypeScript('consume.ts', ['--target', broker.target, '--out', folder])
    t.after(() => consumer.end('SIGKILL'))
    await waitFor('the consumer', async () => (await broker.consumers()) === 1)
    const producer = runTypeScript('produce.ts', [
      '--target',
      broker.target,
      '--seconds',
      '1',
      '--speed',
      '0',
    ])
    t.after(() => producer.end('SIGKILL'))
    await assertSucceeded(producer)
    await assertSucceeded(consumer)
    assert.equal(readFileSync(join(folder, 'received.wav')).length, 44 + 16000 * 2)
    ids.push(/playing (\S+) of demo/.exec(producer.output())?.[1] ?? '')
  }
  assert.notEqual(ids[0], ids[1])
})

test('the route of the example is valid', () => {
  const route = load(readFileSync(join(examples, 'route.yaml'), 'utf8'))
  const judged = validateResource(animationStreamRouteKind, route)
  assert.ok('value' in judged, JSON.stringify(judged))
})
