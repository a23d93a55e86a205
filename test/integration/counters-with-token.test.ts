import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { CallerAuthentication } from '../../operator/api/access.ts'
import { ApiError } from '../../operator/api/errors.ts'
import { serveApi } from '../../operator/testing/serve-api.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

const config = '{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}'
const token = 'a-token-of-the-test'

/** Only calls with the token are answered. */
const access: CallerAuthentication = {
  async authenticate({ headers }) {
    if (headers.authorization !== `Bearer ${token}`)
      throw new ApiError('unauthenticated', 'the bearer token is not valid')
    return { name: 'alice', async authorize() {} }
  },
}

test('top and tap print the keys and decisions of a process to the owner of a token', async t => {
  const { port, sessions } = await startReportingOperator(t, config)
  const env = { DECISION_TAP: 'true', DECISION_KEYS_HASHED: 'false' }
  const process = await startReportingProcess(t, port, 'a', env)
  const { url, lines } = await serveApi(t, { access, sessions })
  await waitFor('the domain', async () => (await sessions.domains()).items[0]?.domain === 'shop')
  const folder = temporaryFolder('token')
  const writeFile = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const run = (tokenFile: string, ...args: string[]) => {
    const operator = ['--operator', new URL(url).origin, '--token-file', tokenFile]
    return startProgram(globalThis.process.execPath, [programs.tollway, 'counters', ...args, ...operator])
  }
  const good = writeFile('token', `${token}\n`)
  const topArgs = ['top', '--domain', 'shop', '--rule', 'shop.user', '--by', 'rejected']

  const stranger = run(writeFile('wrong', 'another-token'), ...topArgs)
  assert.equal(await stranger.exited(), 2)
  assert.match(stranger.output(), /the bearer token is not valid/)

  const tap = run(good, 'tap', '--domain', 'shop')
  t.after(() => tap.end('SIGKILL'))
  const firstTop = run(good, ...topArgs)
  assert.equal(await firstTop.exited(), 0, firstTop.output())
  // The tap has begun when a decision of a call is printed.
  await waitFor('a rejected call in the tap', async () => {
    await process.ask('shop', 'user', 'alice')
    return /Z a user=alice shop\.user OVER over the limit of 1 per day\n/.test(tap.output())
  })
  await waitFor('the top key', async () => {
    const top = run(good, ...topArgs)
    assert.equal(await top.exited(), 0, top.output())
    return /^KEY +REJECTED +ERROR\nuser=alice +[1-9]\d* +0\ncounted for \d+ s\n$/.test(top.output())
  })
  assert.equal(await tap.end('SIGINT'), 0)
  for (const text of [tap.output(), stranger.output(), ...lines]) assert.ok(!text.includes(token))
})
