import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { findProgram, missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const page = readFileSync(join(root, 'docs/tasks/accept-a-payment.md'), 'utf8')

interface Block {
  readonly language: string
  readonly text: string
}

const blocks: readonly Block[] = [...page.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(
  ([, language = '', text = '']) => ({ language, text }),
)

const receivers = [
  { language: 'js', file: 'receiver.mjs', command: ['node'], needs: 'node' },
  { language: 'python', file: 'receiver.py', command: ['python3'], needs: 'python3' },
  { language: 'go', file: 'receiver.go', command: ['go', 'run'], needs: 'go' },
] as const

function receiverOf(language: string): string {
  return blocks.find(block => block.language === language)?.text ?? assert.fail(`no block of ${language}`)
}

/** The options of `make run ARGS='…'` in the guide's first block. */
function runOptions(): readonly string[] {
  const [, options = ''] = /^make run ARGS='(.*)'$/m.exec(blocks[0]?.text ?? '') ?? []
  assert.match(options, /^--payments /)
  return options.split(' ')
}

const uuid = /\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g

/** A shell of a reader of the guide, in a folder with the receiver of Node. */
function openShell(ports: Readonly<Record<string, number>>) {
  const cwd = temporaryFolder('guide')
  writeFileSync(join(cwd, 'receiver.mjs'), receiverOf('js'))
  const shell = spawn('bash', ['-e', '-o', 'pipefail'], {
    cwd,
    // The shell has a separate process group, which ends with all its programs.
    detached: true,
    env: { ...process.env, PORT: `${ports['9000']}` },
  })
  let said = ''
  shell.stdout.on('data', (chunk: Buffer) => {
    said += chunk
  })
  shell.stderr.on('data', (chunk: Buffer) => {
    said += chunk
  })
  const exited = new Promise<void>(resolve => shell.on('exit', () => resolve()))
  let count = 0
  return {
    /** Runs one block. Resolves with its output when that contains `expected`. */
    async run(text: string, expected: string | undefined): Promise<void> {
      count += 1
      said = ''
      const end = `block-${count}-ended`
      shell.stdin.write(`${text.replaceAll(/\b(8090|9000)\b/g, port => `${ports[port]}`)}\necho ${end}\n`)
      const output = () =>
        said.replace(`${end}\n`, '').replaceAll(uuid, 'ID').replaceAll(`:${ports['9000']}`, ':9000')
      await waitFor(`the end of: ${text}`, () => said.includes(end) || shell.exitCode !== null, 30_000)
      assert.equal(shell.exitCode, null, `${text}\nfailed: ${said}`)
      if (expected === undefined) return
      // The output of a background program may follow the end of the block.
      await waitFor(`the output of: ${text}`, () => output().includes(expected), 15_000).catch(() => {})
      assert.equal(output(), expected, text)
    },
    async close() {
      process.kill(-(shell.pid ?? assert.fail()), 'SIGKILL')
      await exited
    },
  }
}

describe('the guide to a payment', { skip: missingProgram('curl') || missingProgram('jq') }, () => {
  let ends: (() => Promise<void>)[] = []
  let port = 0

  before(async () => {
    const [paymentsPort = 0, debugPort = 0, provisionPort = 0] = await freePorts(3)
    port = paymentsPort
    const ports = { port: paymentsPort, 'debug-port': debugPort, 'provision-port': provisionPort }
    const options = Object.entries(ports).flatMap(([name, number]) => [`--payments-${name}`, `${number}`])
    const manifests = {
      'checkout.yaml': readFileSync(join(root, 'examples/quickstart/checkout.yaml'), 'utf8'),
    }
    const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
    await startTollway(cleanup, manifests, [...runOptions(), ...options])
  })
  after(async () => {
    for (const end of ends) await end()
    ends = []
  })

  test('the commands of the guide run and print what the guide shows', async t => {
    const [receiverPort = 0] = await freePorts(1)
    const shell = openShell({ 8090: port, 9000: receiverPort })
    t.after(shell.close)
    let ran = 0
    for (const [index, { language, text }] of blocks.entries()) {
      if (language !== 'sh' || index === 0) continue
      const next = blocks[index + 1]
      await shell.run(text, next?.language === 'text' ? next.text : undefined)
      ran += 1
    }
    assert.ok(ran >= 8, `${ran} blocks of commands`)
  })

  for (const { language, file, command, needs } of receivers) {
    test(`the receiver of the guide in ${language} accepts only genuine deliveries`, async t => {
      if (findProgram(needs) === undefined) {
        t.skip(`${needs} is not on the PATH`)
        return
      }
      const [receiverPort = 0] = await freePorts(1)
      const api = await openShop(port)
      const url = `http://127.0.0.1:${receiverPort}/`
      const { webhook } = (await api('webhooks', { url })) as { webhook: { id: string; secret: string } }
      const receiver = startReceiver({ file, command, language, secret: webhook.secret, port: receiverPort })
      t.after(receiver.end)
      await receiver.said('listening', 90_000)
      await api('', { name: 'Coffee' }, 'PUT')
      await receiver.said('verified merchant.updated', 30_000)
      await assertJudges(url, webhook.secret, receiver.output)
    })
  }
})

interface Receiver {
  readonly file: string
  readonly command: readonly string[]
  readonly language: string
  readonly secret: string
  readonly port: number
}

function startReceiver({ file, command, language, secret, port }: Receiver) {
  const cwd = temporaryFolder('receiver')
  writeFileSync(join(cwd, file), receiverOf(language))
  const [program = '', ...args] = command
  const env = { ...process.env, WEBHOOK_SECRET: secret, PORT: `${port}` }
  // `go run` starts the program that it builds; both end with their group.
  const started = startProgram(program, [...args, file], { cwd, env, detached: true })
  const end = async () => {
    process.kill(-started.pid, 'SIGKILL')
    await started.exited()
  }
  return { ...started, end }
}

/** Sends requests of an attacker, and deliveries during a rotation and after a lost answer. */
async function assertJudges(url: string, secret: string, output: () => string): Promise<void> {
  const body = JSON.stringify({ type: 'test.sent', name: 'Café' })
  const now = Math.floor(Date.now() / 1000)
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const sign = (signed: string, by: Uint8Array = key) =>
    `v1,${createHmac('sha256', by).update(signed).digest('base64')}`
  const genuine = sign(`evt_1.${now}.${body}`)
  const send = async (change: Record<string, string>, content = body) => {
    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': `${now}`,
      'webhook-signature': genuine,
      ...change,
    }
    return (await fetch(url, { method: 'POST', body: content, headers })).status
  }
  const foreign = sign(`evt_1.${now}.${body}`, Buffer.alloc(32))
  const stale = now - 301
  const future = now + 330
  const cases: readonly (readonly [name: string, status: number, answer: Promise<number>])[] = [
    ['another body', 400, send({}, body.replace('Café', 'Cafe'))],
    ['another id', 400, send({ 'webhook-id': 'evt_2' })],
    ['another time', 400, send({ 'webhook-timestamp': `${now - 1}` })],
    ['no time', 400, send({ 'webhook-timestamp': '' })],
    ['a time that is not a number', 400, send({ 'webhook-timestamp': 'NaN' })],
    ['a signature by another secret', 400, send({ 'webhook-signature': foreign })],
    ['no signature', 400, send({ 'webhook-signature': '' })],
    ['a part of the signature', 400, send({ 'webhook-signature': genuine.slice(0, 20) })],
    ['another version', 400, send({ 'webhook-signature': genuine.replace('v1', 'v2') })],
    [
      'an old delivery',
      400,
      send({ 'webhook-timestamp': `${stale}`, 'webhook-signature': sign(`evt_1.${stale}.${body}`) }),
    ],
    [
      'a delivery from the future',
      400,
      send({ 'webhook-timestamp': `${future}`, 'webhook-signature': sign(`evt_1.${future}.${body}`) }),
    ],
  ]
  for (const [name, status, answer] of cases) assert.equal(await answer, status, name)
  assert.doesNotMatch(output(), /test\.sent/)
  assert.equal(await send({ 'webhook-signature': `v1,AAAA ${genuine}` }), 204, 'the second of two secrets')
  assert.equal(await send({}), 204, 'a repeated delivery')
  await waitFor('the event to be handled', () => output().includes('test.sent'))
  assert.equal(output().match(/verified test\.sent/g)?.length, 1, 'each event is handled once')
}

/** Opens a shop; the returned function calls the API below its merchant. */
async function openShop(port: number) {
  const base = `http://127.0.0.1:${port}`
  const call = async (method: string, path: string, fields: object, key = '') => {
    const response = await fetch(base + path, {
      method,
      headers: {
        authorization: `Basic ${Buffer.from(`:${key}`).toString('base64')}`,
        'content-type': 'application/json',
        accept: 'application/json',
      },
      body: JSON.stringify(fields),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${text}`)
    return JSON.parse(text) as unknown
  }
  const { app } = (await call('POST', '/apps', {})) as { app: { key: string } }
  const input = {
    currency: 'DKK',
    test: true,
    email: 'jane@example.com',
    website: 'https://shop.example',
    descriptor: 'SHOP',
    company: { country: 'DK' },
  }
  const { merchant } = (await call('POST', '/merchants', input, app.key)) as { merchant: { id: string } }
  return (path: string, fields: object, method = 'POST') =>
    call(method, `/merchants/${merchant.id}${path === '' ? '' : `/${path}`}`, fields, app.key)
}
