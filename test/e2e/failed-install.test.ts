import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { apply, eventually, helm, kubectl, type Pod, pods, read } from './cluster.ts'
import { createFigures } from './figures.ts'
import { tollway } from './kubectl-plugin.ts'
import { installWithoutWaiting, prepare, readyPods, system, upgradeWithoutWaiting } from './release.ts'

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

/** The Secret of the database, which the tests take away. */
const secret = 'payments-database'
const namedBy = 'create or change it in the namespace tollway-system, or set payments.database.urlSecret'
const missing = `there is no Secret ${secret} with the key url; ${namedBy}`

describe('an install that cannot work', { skip, timeout: 600_000 }, () => {
  const figures = createFigures('failed-install')
  let url = ''

  before(async () => {
    await helm('uninstall', 'tollway', '-n', system, '--ignore-not-found', '--wait')
    await prepare()
    const known = await read<{ readonly data: Readonly<Record<string, string>> }>(system, `secrets/${secret}`)
    url = known?.data['url'] ?? ''
    assert.notEqual(url, '')
    await kubectl('-n', system, 'delete', 'secret', secret)
  })
  after(async () => {
    await kubectl('delete', 'priorityclass', 'few', '--ignore-not-found')
    await kubectl('-n', system, 'delete', 'resourcequota', 'few', '--ignore-not-found')
    await helm('uninstall', 'tollway', '-n', system, '--ignore-not-found', '--no-hooks', '--wait')
    figures.write()
  })

  it('fails within seconds with the missing Secret, and kubectl tollway status shows the same', async () => {
    await failsWith(
      () => installWithoutWaiting(),
      `payments: 0 of 2 pods of the newest version are ready: ${missing}`,
    )
    const { code, out } = await tollway(['status', '--tollway-namespace', system])
    assert.equal(code, 1)
    assert.ok(out.includes(missing), out)
  })

  it('fails with the key that the Secret does not have', async () => {
    await apply(secretWith('address'))
    await failsWith(() => upgradeWithoutWaiting(), missing)
  })

  it('succeeds when the Secret is created some seconds after the pods', async () => {
    await kubectl('-n', system, 'delete', 'secret', secret, '--ignore-not-found')
    await upgradeMeanwhile('second', 1, () => apply(secretWith('url')))
  })

  it('succeeds when the database is late', async () => {
    await kubectl('-n', 'databases', 'delete', 'pod', 'postgres')
    await upgradeMeanwhile('third', 2, prepare)
  })

  it('fails with the image that cannot be pulled, while the earlier pods take calls', async () => {
    const cause = 'the image tollway/ratelimit:none cannot be pulled: '
    const message = await failsWith(
      () => upgradeWithoutWaiting('rateLimit.pods.image=tollway/ratelimit:none'),
      `ratelimit: 0 of 3 pods of the newest version are ready, 3 earlier ones take calls: ${cause}`,
    )
    assert.match(message, /; set rateLimit\.pods\.image or image\.pullSecrets/)
  })

  it('fails a rollback to such an image, and succeeds with one to the revision before it', async () => {
    const failed = await lastRevision()
    const cause = /0 of 3 pods of the newest version are ready, 3 earlier.* image .*ratelimit:none cannot/
    await failsWith(() => helm('rollback', 'tollway', failed, '-n', system), cause)
    // helm rejects an upgrade after a rollback whose hook failed, but accepts another rollback.
    await helm('rollback', 'tollway', `${Number(failed) - 1}`, '-n', system)
  })

  it('fails with the image of an operator that cannot be pulled, while the earlier ones work', async () => {
    const cause = /2 earlier ones take calls: .* image .*operator:none cannot be pulled/
    await failsWith(() => upgradeWithoutWaiting('operator.image=tollway/operator:none'), cause)
    assert.equal((await readyPods('app.kubernetes.io/name=ratelimit')).length, 3)
    // The hook of an uninstall runs the operator's image.
    await upgradeWithoutWaiting()
  })

  it('fails with the quota that rejects the pods', async () => {
    await helm('uninstall', 'tollway', '-n', system, '--wait', '--timeout', '180s')
    await apply({ apiVersion: 'v1', kind: 'List', items: [priority, quota] })
    const cause =
      /payments: .*the API server rejects its pods: .*exceeded quota: few.*; .*set payments\.pods"/
    await failsWith(() => installWithoutWaiting('payments.pods.priorityClassName=few'), cause)
  })

  /** helm prints the cause alone, as one line before its own error. Resolves with what it prints. */
  async function failsWith(change: () => Promise<unknown>, cause: string | RegExp): Promise<string> {
    const beginMs = performance.now()
    const message = await change().then(
      () => assert.fail('helm succeeded'),
      (error: Error) => error.message,
    )
    const seconds = (performance.now() - beginMs) / 1000
    const [first = '', ...others] = message.trim().split('\n')
    assert.ok(typeof cause === 'string' ? first.includes(cause) : cause.test(first), message)
    assert.doesNotMatch(first, /\\n/)
    assert.ok(
      others.length <= 2 && others.every(line => line.includes('Job/tollway-system/tollway-wait not ready')),
      message,
    )
    figures.note(`helm → ${`${cause}`.slice(0, 60)}…`, '< 45 s', `${seconds.toFixed(0)} s`)
    return message
  }

  /** Upgrades to new payments pods, and does something after this number of their restarts. */
  async function upgradeMeanwhile(
    name: string,
    restarts: number,
    act: () => Promise<unknown>,
  ): Promise<void> {
    const upgraded = upgradeWithoutWaiting(`payments.pods.annotations.example\\.org/try=${name}`)
    const isRestarted = ({ metadata, status }: Pod) =>
      metadata.annotations?.['example.org/try'] === name &&
      status.containerStatuses?.some(({ restartCount }) => restartCount >= restarts) === true
    const restarted = eventually(`${restarts} restarts of a new pod`, async () =>
      (await pods(system, 'app.kubernetes.io/name=payments')).some(isRestarted),
    )
    await Promise.race([upgraded, restarted])
    await act()
    await upgraded
  }

  async function lastRevision(): Promise<string> {
    const history = JSON.parse(await helm('history', 'tollway', '-n', system, '-o', 'json')) as {
      revision: number
    }[]
    return `${history.at(-1)?.revision}`
  }

  function secretWith(key: string) {
    return {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: secret, namespace: system },
      data: { [key]: url },
    }
  }
})

/** A quota that rejects the pods of this priority alone. */
const priority = {
  apiVersion: 'scheduling.k8s.io/v1',
  kind: 'PriorityClass',
  metadata: { name: 'few' },
  value: 1,
}
const quota = {
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  metadata: { name: 'few', namespace: system },
  spec: {
    hard: { pods: '0' },
    scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values: ['few'] }] },
  },
}
