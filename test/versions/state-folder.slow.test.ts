import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it, type TestContext } from 'node:test'
import { freePorts } from '../support/free-ports.ts'
import { programs } from '../support/programs.ts'
import { manifest, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

const merchant = `apiVersion: tollway.dev/v1alpha1
kind: Merchant
metadata: {name: shop, namespace: sales}
spec:
  currency: DKK
  email: shop@example.org
  website: https://example.org
  descriptor: SHOP
  company: {country: DK}
`
const command = 'operator/cli/tollway.ts'
const commands = { old: fileOfPreviousRelease(command), today: programs.tollway }
type Version = keyof typeof commands

describe('the state folder of one machine', { skip: missingPreviousRelease(), timeout: 180_000 }, () => {
  before(checkOutPreviousRelease)

  it('works from 0.1.0 to the current version and back, with limits and merchants', async t => {
    const [port = 0, debugPort = 0, provisionPort = 0] = await freePorts(3)
    const ports = { port, 'debug-port': debugPort, 'provision-port': provisionPort }
    const options = ['--payments', ...Object.entries(ports).flatMap(named)]
    const files = {
      'right.yaml': manifest('right', 'right', { user: '1/hour' }),
      'wrong.yaml': manifest('wrong', 'wrong', { user: '2/hour' }),
      'shop.yaml': merchant,
    }
    const first = await start(t, 'old', files, options)
    await first.ready()
    const { apiKey, merchantId } = credentials(first)
    assert.equal(await statusOf(port, merchantId, apiKey), 200)
    // From now on, the last good version of this resource is in force, in each version.
    first.write('wrong.yaml', manifest('wrong', 'wrong', { user: '2/fortnight' }))
    await waitFor('the error', () => JSON.stringify(first.status()).includes('fortnight'))
    await first.program.end('SIGTERM')

    for (const version of ['today', 'old', 'today'] as const) {
      const place = ['-f', first.folder, '--state-dir', first.stateDir]
      const next = await start(t, version, {}, [...options, ...place])
      await waitFor(`${version} to provision the merchant`, async () => {
        return (await statusOf(port, merchantId, apiKey)) === 200
      })
      assert.deepEqual(credentials(first), { apiKey, merchantId }, version)
      for (const [domain, codes] of Object.entries({ right: '200,429', wrong: '200,200,429' })) {
        const found: number[] = []
        while (found.length < codes.split(',').length) found.push(await next.ask(domain, 'user', 'x'))
        assert.equal(found.join(), codes, `${domain} by ${version}`)
      }
      await next.program.end('SIGTERM')
      assert.doesNotMatch(next.program.output(), /level=error/, version)
    }
  })

  it('enforces after a rollback the part of a last good version that 0.1.0 knows', async t => {
    const limits = (name: string) => manifest(name, name, { user: '1/hour' })
    const several = limits('several').replace(
      /rateLimit: (\{.*?\})/,
      'limits: [$1, {unit: day, requestsPerUnit: 9}]',
    )
    const bucket = limits('bucket').replace('unit: hour', 'unit: hour, algorithm: TokenBucket')
    const first = await start(t, 'today', { 'several.yaml': several, 'bucket.yaml': bucket }, [])
    await first.ready()
    await first.program.end('SIGTERM')
    const back = await start(t, 'old', {}, ['-f', first.folder, '--state-dir', first.stateDir])
    const codes = async (name: string) => [
      await back.ask(name, 'user', 'x'),
      await back.ask(name, 'user', 'x'),
    ]
    assert.deepEqual(await codes('bucket'), [200, 429], 'as a fixed window')
    // 0.1.0 does not have `limits`: docs/operations/versions.md says to replace them before the rollback.
    assert.deepEqual(await codes('several'), [200, 200])
    for (const { conditions } of first.status().resources) {
      const accepted = conditions.find(({ type }) => type === 'Accepted')
      assert.match(accepted?.message ?? '', /no such field/)
    }
  })
})

const named = ([name, port]: [string, number]) => [`--payments-${name}`, `${port}`]

const start = (
  t: TestContext,
  version: Version,
  files: Readonly<Record<string, string>>,
  options: readonly string[],
) => startTollway(t, files, options, [process.execPath, commands[version]])

function credentials({ stateDir }: Tollway): { readonly apiKey: string; readonly merchantId: string } {
  const text = readFileSync(join(stateDir, 'secrets/sales.shop.json'), 'utf8')
  const { apiKey = '', merchantId = '' } = (JSON.parse(text) as { stringData: Record<string, string> })
    .stringData
  return { apiKey, merchantId }
}

async function statusOf(port: number, merchantId: string, key: string): Promise<number> {
  const authorization = `Basic ${Buffer.from(`:${key}`).toString('base64')}`
  const url = `http://127.0.0.1:${port}/merchants/${merchantId}`
  return (await fetch(url, { headers: { authorization } })).status
}
