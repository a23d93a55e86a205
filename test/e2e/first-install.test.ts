import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { apply, helm, kubectl, restricted } from './cluster.ts'
import { tollway } from './kubectl-plugin.ts'
import { installWithoutWaiting, system } from './release.ts'

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

/** These tests need no image, so that they run while images are made and loaded. */
describe('a cluster without Tollway', { skip, timeout: 300_000 }, () => {
  it('has nothing for kubectl tollway, which prints the reason', async t => {
    const definition = 'customresourcedefinition/ratelimitconfigs.tollway.dev'
    if ((await kubectl('get', definition, '--ignore-not-found', '-o', 'name')) !== '') {
      t.skip('the cluster has the definitions of an earlier installation')
      return
    }
    const collected = await tollway(['collect'])
    assert.equal(collected.code, 1)
    assert.match(
      collected.error,
      /found no operator of Tollway: .*, and the kinds of tollway.dev do not exist/,
    )
    for (const command of [['status'], ['streams', 'list'], ['payments', 'verify']]) {
      const { code, error } = await tollway(command)
      assert.equal(code, 2, error)
      assert.match(error, /found no operator of Tollway: no namespace has a pod with the label/)
    }
    const validated = await tollway(['validate'])
    assert.equal(validated.code, 2)
    assert.match(validated.error, /Tollway is not installed in this cluster/)
  })

  it('fails a first install in time without an operator image, with the reason in the events', async () => {
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: system, labels: restricted } })
    const image = 'operator.image=tollway/operator:none'
    const failed = /failed post-install: resource Job\/tollway-system\/tollway-wait not ready/
    await assert.rejects(installWithoutWaiting(image, 'waitUntilReady.seconds=1'), failed)
    const events = await kubectl('-n', system, 'get', 'events', '--field-selector', 'type=Warning')
    assert.match(events, /pod\/tollway-operator-\S+ +Failed to pull image "tollway\/operator:none"/)
    const status = await tollway(['status', '--tollway-namespace', system])
    assert.match(
      status.error,
      /tollway-operator-\S+ does not start: the image tollway\/operator:none cannot be pulled: .*; set operator\.image/,
    )
    await helm('uninstall', 'tollway', '-n', system, '--no-hooks', '--wait', '--timeout', '120s')
  })
})
