import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, describe, it } from 'node:test'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { manifest, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

const oldService = fileOfPreviousRelease('services/ratelimit/main.ts')
const oldCommand = fileOfPreviousRelease('operator/cli/tollway.ts')

/** Changes of a manifest to fields that 0.1.0 does not know, each in a domain of that name. */
const extensions: Readonly<Record<string, (text: string) => string>> = {
  algorithms: text => text.replace('unit: hour', 'unit: hour, algorithm: TokenBucket'),
  several: text => text.replace(/rateLimit: (\{.*?\})/, 'limits: [$1, {unit: day, requestsPerUnit: 9}]'),
  atomic: text => text.replace('  descriptors:', '  allOrNothing: true\n  descriptors:'),
  costs: text => text.replace('unit: hour', 'unit: hour, countRejected: true'),
  running: text =>
    text.replace(
      'unit: hour, requestsPerUnit: 1',
      'algorithm: Concurrency, maxConcurrent: 1, leaseSeconds: 999',
    ),
  leased: text => text.replace('unit: hour', 'unit: hour, counting: Leased'),
  shared: text => text.replace('unit: hour,', 'unit: second, delivery: Quota,'),
  hidden: text => text.replace('unit: hour', 'unit: hour, headers: false'),
  matching: text => text.replace(/(- \{? *key: user)/, '$1, match: {regex: "[0-9a-f-]+"}'),
  grouped: text => text.replace(/(- \{? *key: user)/, '$1, groupBy: {ipv6Prefix: 64}'),
}
const limits = (domain: string, count: number) => manifest(domain, domain, { user: `${count}/hour` })

const feedOf = ({ feedPort }: Tollway) => ({
  CONFIG_TYPE: 'GRPC_XDS_SOTW',
  CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
  BACKEND_TYPE: 'memory',
})

/** The codes of three calls of a new user. */
async function codesOf(pod: RateLimitProcess, domain: string): Promise<string> {
  const user = randomUUID()
  const found: number[] = []
  for (let call = 0; call < 3; call++) found.push(await pod.ask(domain, 'user', user))
  return found.join()
}

const enforces = (pod: RateLimitProcess, domain: string, codes: string) =>
  waitFor(`${codes} in ${domain}`, async () => (await codesOf(pod, domain)) === codes)

describe('operators and rate limit processes of 0.1.0 and of the current version', {
  skip: missingPreviousRelease(),
}, () => {
  before(checkOutPreviousRelease)

  it('pods of 0.1.0 enforce edits, and keep limits whose new fields only current pods get', async t => {
    const domains = Object.keys(extensions)
    const files = domains.map(domain => [`${domain}.yaml`, limits(domain, 2)])
    const tollway = await startTollway(t, Object.fromEntries(files))
    const [old, today] = await Promise.all([
      startRateLimit(t, feedOf(tollway), oldService),
      startRateLimit(t, feedOf(tollway)),
    ])
    await Promise.all([old.serves(), today.serves()])
    for (const [domain, extend] of Object.entries(extensions)) {
      assert.equal(await codesOf(old, domain), '200,200,429')
      const extended = extend(limits(domain, 1))
      assert.notEqual(extended, limits(domain, 1))
      tollway.write(`${domain}.yaml`, extended)
    }
    for (const domain of domains) await enforces(today, domain, '200,429,429')
    // Later edits reach the old pod, beside the resources that it does not get.
    tollway.write('other.yaml', limits('other', 1))
    await enforces(old, 'other', '200,429,429')
    for (const domain of domains) assert.equal(await codesOf(old, domain), '200,200,429', domain)
    // Without the new field, the edit is in force.
    tollway.write('algorithms.yaml', limits('algorithms', 1))
    await enforces(old, 'algorithms', '200,429,429')
  })

  it('current pods enforce what an operator of 0.1.0 publishes, and its edits', async t => {
    const files = { 'checkout.yaml': limits('checkout', 2) }
    const tollway = await startTollway(t, files, [], [process.execPath, oldCommand])
    const pod = await startRateLimit(t, feedOf(tollway))
    await pod.serves()
    assert.equal(await codesOf(pod, 'checkout'), '200,200,429')
    tollway.write('checkout.yaml', limits('checkout', 1))
    await enforces(pod, 'checkout', '200,429,429')
  })
})
