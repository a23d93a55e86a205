import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest, root, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const limits = manifest('a', 'a', { user: '1/hour' })

async function run(...args: string[]): Promise<{ readonly code: number; readonly out: string }> {
  let out = ''
  const print = (text: string) => {
    out += text
  }
  return { code: await runTollway(args, { print, printError: print }), out }
}

const status = (...args: string[]) => run('status', ...args)

/** Whether any process has this text in its arguments or its environment. */
function isMentioned(text: string): boolean {
  return readdirSync('/proc').some(pid => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false
    try {
      const files = ['cmdline', 'environ'].map(file => readFileSync(`/proc/${pid}/${file}`, 'utf8'))
      return files.some(content => content.includes(text))
    } catch {
      return false
    }
  })
}

/** An operator on the state and the manifests of another one. */
const startAfter = (t: Parameters<typeof startTollway>[0], { folder, stateDir }: Tollway) =>
  startTollway(t, {}, ['-f', folder, '--state-dir', stateDir])

test('a second operator on the same state folder is rejected, and names the first one', async t => {
  const first = await startTollway(t, { 'a.yaml': limits })
  await assert.rejects(startAfter(t, first), error => {
    const { message } = error as Error
    assert.match(
      message,
      new RegExp(`state folder ${first.stateDir} is in use by process ${first.program.pid}`),
    )
    assert.match(message, /--state-dir/)
    return true
  })
  assert.equal(await first.ask('a', 'user', 'x'), 200)
})

test('invalid manifests are reported in the status and the log, and cleared after a fix', async t => {
  const tollway = await startTollway(t, { 'a.yaml': limits })
  await tollway.ready()
  tollway.write('b.yaml', 'apiVersion: tollway.dev/v1alpha1\nkind: [')
  tollway.write('c.yaml', manifest('c', 'c', { user: '1/day' }).replace('RateLimitConfig', 'RateLimitConfg'))
  await tollway.program.said(
    /level=warn msg="find problem" place=c\.yaml message="RateLimitConfg default\/c: there is no kind RateLimitConfg/,
  )
  await tollway.program.said(/level=warn msg="find problem" place=b\.yaml message="line 2, column \d+: /)
  const wrong = await status('--state-dir', tollway.stateDir)
  assert.equal(wrong.code, 1)
  assert.match(wrong.out, /Problems:\n/)
  assert.match(wrong.out, /^ {2}b\.yaml: line 2, column /m)
  assert.match(wrong.out, /^ {2}c\.yaml: .*there is no kind RateLimitConfg/m)
  assert.doesNotMatch(tollway.program.output(), /level=info/)

  for (const file of ['b.yaml', 'c.yaml']) rmSync(join(tollway.folder, file))
  const right = await status('--state-dir', tollway.stateDir, '--wait', '10')
  assert.equal(right.code, 0, right.out)
  assert.doesNotMatch(right.out, /Problems:/)
})

test('limits of a file that became invalid while no operator ran stay in force', async t => {
  const first = await startTollway(t, { 'a.yaml': limits })
  await first.ready()
  assert.equal(await first.program.end('SIGINT'), 0)
  assert.equal((await status('--state-dir', first.stateDir)).code, 2)
  first.write('a.yaml', `${limits}}`)
  const second = await startAfter(t, first)
  const answers = [await second.ask('a', 'user', 'x'), await second.ask('a', 'user', 'x')]
  assert.deepEqual(answers, [200, 429])
  const { code, out } = await status('--state-dir', first.stateDir)
  assert.equal(code, 1)
  assert.match(out, /RateLimitConfig default\/a: the resource cannot be read: a\.yaml: line \d+/)
  assert.match(out, /RateLimitConfig default\/a: the last good version stays in force/)

  first.write('a.yaml', manifest('a', 'a', { user: '0/hour' }))
  await waitFor('the new limit', async () => (await second.ask('a', 'user', 'y')) === 429)
  assert.equal((await status('--state-dir', first.stateDir, '--wait', '10')).code, 0)
})

test('the commands print what is in force, although manifests are invalid or renamed', async t => {
  const tollway = await startTollway(t, {
    'a.yaml': limits,
    'z.yaml': manifest('z', 'z', { user: '2/hour' }),
  })
  await tollway.ready()
  tollway.write('a.yaml', limits.replace('unit: hour', 'unit: fortnight'))
  tollway.write('b.yaml', manifest('0-younger', 'z', { user: '9/hour' }))
  rmSync(join(tollway.folder, 'z.yaml'))
  tollway.write('c.yaml', `${manifest('z', 'z', { user: '2/hour' })}  broken: [`)
  const state = ['--state-dir', tollway.stateDir]
  await waitFor('the status', async () => (await status(...state)).out.includes('b.yaml'))

  const tried = await run('try', ...state, '-d', 'a', '-e', 'user=x')
  assert.equal(tried.code, 0)
  assert.match(tried.out, /a\.yaml: .*unit: "fortnight"/)
  assert.match(tried.out, /a\.yaml: RateLimitConfig default\/a: the last good version is in force/)
  assert.match(tried.out, /=> a\.user: 1\/hour/)

  const translated = await run('translate', ...state, '-o', 'json')
  const { resources } = JSON.parse(translated.out.slice(translated.out.indexOf('{\n')))
  const inForce = resources.map((resource: { name: string; domain: string }) => [
    resource.name,
    resource.domain,
  ])
  assert.deepEqual(inForce, [
    ['default/a', 'a'],
    ['default/z', 'z'],
  ])
  assert.equal(await tollway.ask('z', 'user', 'x'), 200)
  assert.equal(await tollway.ask('z', 'user', 'x'), 200)
  assert.equal(await tollway.ask('z', 'user', 'x'), 429)
})

test('Ctrl-C during the start leaves no process behind', async t => {
  const folder = temporaryFolder('start')
  const names = ['grpc-port', 'http-port', 'debug-port', 'feed-port', 'operator-port']
  const [redisPort, ...ports] = await freePorts(1 + names.length)
  const program = startProgram(process.execPath, [
    programs.tollway,
    ...['run', '-f', folder, '--state-dir', join(folder, 'state')],
    // No Redis listens there, so that no process takes calls.
    ...['--redis-url', `127.0.0.1:${redisPort}`, '--broker-replicas', '0'],
    ...names.flatMap((name, index) => [`--${name}`, `${ports[index]}`]),
  ])
  t.after(() => program.end('SIGKILL'))
  const readUid = async () => {
    const answer = await fetch(`http://127.0.0.1:${ports.at(-1)}/status`)
    const { replicas } = (await answer.json()) as { replicas: { uid: string }[] }
    return replicas[0]?.uid
  }
  const uid = await waitFor('a process', readUid).catch((error: Error) =>
    assert.fail(`${error.message}; it said: ${program.output()}`),
  )
  assert.equal(await program.end('SIGINT'), 0, program.output())
  assert.match(program.output(), /stopping all processes \(SIGINT\)/)
  assert.doesNotMatch(program.output(), /Tollway enforces/)
  assert.equal(isMentioned(uid), false)
})

test('the end of the launcher under an older Node ends every process', async t => {
  const launcher = join(root, 'operator/bin/tollway.js')
  const version = startProgram('/usr/bin/node', ['--version'])
  await version.exited()
  if (!(Number(/^v(\d+)\./.exec(version.output())?.[1]) < 24)) {
    process.stderr.write('SKIPPED: /usr/bin/node is not a Node below 24\n')
    t.skip('/usr/bin/node is not a Node below 24')
    return
  }
  for (const signal of ['SIGKILL', 'SIGINT', 'SIGTERM'] as const) {
    const tollway = await startTollway(t, { 'a.yaml': limits }, [], ['/usr/bin/node', launcher])
    const traces = [tollway.stateDir, `GRPC_PORT=${tollway.grpcPort}`]
    assert.ok(traces.every(isMentioned))
    await tollway.program.end(signal)
    await waitFor(`nothing to be left after ${signal}`, () => !traces.some(isMentioned))
  }
})
