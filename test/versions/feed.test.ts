import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it, type TestContext } from 'node:test'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

const oldService = fileOfPreviousRelease('services/ratelimit/main.ts')

/** Manifests with fields that the version before does not know. */
const extensions: Readonly<Record<string, (text: string) => string>> = {
  algorithms: text => text.replace('unit: hour', 'unit: hour, algorithm: TokenBucket'),
  'several limits': text =>
    text.replace(/rateLimit: (\{.*?\})/, 'limits: [$1, {unit: day, requestsPerUnit: 9}]'),
  'atomic requests': text => text.replace('  descriptors:', '  allOrNothing: true\n  descriptors:'),
  'rules without headers': text => text.replace('unit: hour', 'unit: hour, headers: false'),
}

describe('operators and rate limit processes of 0.1.0 and of today', {
  skip: missingPreviousRelease(),
}, () => {
  before(checkOutPreviousRelease)

  const limits = (count: number) => manifest('checkout', 'checkout', { user: `${count}/hour` })
  const feedOf = (port: number) => ({
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    BACKEND_TYPE: 'memory',
  })

  /** The codes of three calls of a new user. */
  async function codesOf(pod: RateLimitProcess): Promise<string> {
    const user = randomUUID()
    const found: number[] = []
    for (let call = 0; call < 3; call++) found.push(await pod.ask('checkout', 'user', user))
    return found.join()
  }

  async function enforces(pod: RateLimitProcess, write: (file: string, text: string) => void): Promise<void> {
    assert.equal(await codesOf(pod), '200,200,429')
    write('checkout.yaml', limits(1))
    await waitFor('the edit', async () => (await codesOf(pod)) === '200,429,429')
  }

  it('pods of it enforce what an operator of today feeds, and its edits', async t => {
    const tollway = await startTollway(t, { 'checkout.yaml': limits(2) })
    const pod = await startRateLimit(t, feedOf(tollway.feedPort), oldService)
    await pod.serves()
    await enforces(pod, tollway.write)
  })

  for (const [what, change] of Object.entries(extensions)) {
    it(`pods of it keep the limits that they understand, while pods of today get ${what}`, async t => {
      await keepWhatTheyUnderstand(t, change(limits(1)))
    })
  }

  async function keepWhatTheyUnderstand(t: TestContext, extended: string): Promise<void> {
    const tollway = await startTollway(t, { 'checkout.yaml': limits(2) })
    const [before, today] = await Promise.all([
      startRateLimit(t, feedOf(tollway.feedPort), oldService),
      startRateLimit(t, feedOf(tollway.feedPort)),
    ])
    await Promise.all([before.serves(), today.serves()])
    assert.notEqual(extended, limits(1))
    tollway.write('checkout.yaml', extended)
    await waitFor('the edit', async () => (await codesOf(today)) === '200,429,429')
    tollway.write('other.yaml', manifest('other', 'other', { user: '1/hour' }))
    await waitFor('the next edit', async () => {
      const user = randomUUID()
      const codes = [await before.ask('other', 'user', user), await before.ask('other', 'user', user)]
      return codes.join() === '200,429'
    })
    assert.equal(await codesOf(before), '200,200,429')
  }

  it('pods of today enforce what an operator of it feeds, and its edits', async t => {
    const operator = await startOldOperator(t)
    const pod = await startRateLimit(t, feedOf(operator.feedPort))
    await pod.serves()
    await enforces(pod, operator.write)
  })

  async function startOldOperator(t: TestContext) {
    const place = temporaryFolder('tollway-before-run')
    const folder = join(place, 'manifests')
    mkdirSync(folder)
    const write = (file: string, text: string) => writeFileSync(join(folder, file), text)
    write('checkout.yaml', limits(2))
    const names = ['feed-port', 'grpc-port', 'http-port', 'operator-port', 'debug-port']
    const ports = await freePorts(names.length)
    const options = names.flatMap((name, index) => [`--${name}`, `${ports[index]}`])
    const program = startProgram(process.execPath, [
      fileOfPreviousRelease('operator/cli/tollway.ts'),
      ...['run', '-f', folder, '--state-dir', join(place, 'state'), ...options],
    ])
    t.after(async () => {
      await program.end('SIGTERM')
    })
    await program.said('Ctrl-C ends every process', 30_000)
    return { feedPort: ports[0] ?? 0, write }
  }
})
