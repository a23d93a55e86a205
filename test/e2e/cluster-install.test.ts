import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { root } from '../support/tollway.ts'
import { eventually, helm, isReady, kubectl, pods, read } from './cluster.ts'
import { createFigures } from './figures.ts'
import { system } from './release.ts'

const skip =
  process.env['KUBECONFIG'] === undefined
    ? 'KUBECONFIG names no cluster'
    : (process.env['LOAD_IMAGES'] ?? '') === '' && 'LOAD_IMAGES is not set'

describe('make cluster-install', { skip, timeout: 600_000 }, () => {
  const figures = createFigures('cluster-install')

  before(async () => {
    await helm('uninstall', 'tollway', '-n', system, '--ignore-not-found', '--wait')
    await kubectl('delete', 'namespace', 'shop', '--ignore-not-found')
  })
  after(async () => {
    await kubectl('delete', 'namespace', 'shop', '--ignore-not-found', '--wait=false')
    await helm('uninstall', 'tollway', '-n', system, '--ignore-not-found', '--wait')
    figures.write()
  })

  it('installs this checkout, and the steps that it prints work', async () => {
    const beginMs = performance.now()
    const printed = await make()
    figures.note('make cluster-install', '< 180 s', `${((performance.now() - beginMs) / 1000).toFixed(0)} s`)
    for (const number of [1, 2, 3, 4]) assert.match(printed, new RegExp(`^${number}/4 `, 'm'))
    const steps = printed.split('\n').filter(line => /^ {2}(helm test|kubectl .*(create|apply) )/.test(line))
    assert.equal(steps.length, 3, printed)
    for (const step of steps) await bash(step)
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'rlc/checkout', '--timeout=60s')
    const service = await read<{ readonly spec: { readonly clusterIP: string } }>(
      system,
      'services/tollway-ratelimit-http',
    )
    // The address of the Service takes the place of the forwarded port.
    const curl =
      /curl .*$/m.exec(printed)?.[0].replace('127.0.0.1:18080', `${service?.spec.clusterIP}:8080`) ?? ''
    await eventually('200 and then 429', async () => /429/.test(await bash(curl)))
  })

  it('upgrades the release, keeps its values, and replaces no pod of the same image', async () => {
    const before = await namesOfPods()
    await make('--set rateLimit.replicas=2')
    await make()
    const ready = (await pods(system, 'app.kubernetes.io/name=ratelimit')).filter(isReady)
    assert.equal(ready.length, 2)
    assert.ok(ready.every(({ metadata }) => before.includes(metadata.name)))
  })

  const namesOfPods = async () => (await pods(system, '')).map(({ metadata }) => metadata.name)
})

const bash = async (command: string) =>
  (await promisify(execFile)('bash', ['-c', command], { cwd: root, maxBuffer: 16 * 1024 * 1024 })).stdout

/** Resolves with everything that the command prints. */
const make = (args = '') => bash(`make cluster-install ARGS='${args}' 2>&1`)
