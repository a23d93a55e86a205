import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { workloadObjects } from '../../operator/environments/kubernetes/infrastructure/objects/workload-objects.ts'
import { clusterWorkloads, makePodShape } from '../../operator/workloads/registry.ts'
import { configOf, missingHelm, namespace, release, render } from './helm.ts'

type Labels = Readonly<Record<string, string>>

interface Port {
  readonly name: string
  readonly targetPort?: string | number
}

interface PodTemplate {
  readonly metadata: { readonly labels: Labels }
  readonly spec: { readonly containers: readonly { readonly ports?: readonly Port[] }[] }
}

interface Monitor {
  readonly selector: { readonly matchLabels: Labels }
  readonly podMetricsEndpoints?: readonly { readonly port: string }[]
  readonly endpoints?: readonly { readonly port: string }[]
}

const everyService = [
  ...['redis.bundled.enabled=true', 'broker.enabled=true'],
  ...['payments.enabled=true', 'payments.database.urlSecret.name=db'],
]

/** Returns the objects of a release with all services: those of the chart and those of its operator. */
function objectsOfRelease(value: string): readonly KubeObject[] {
  const objects = render({ set: [...everyService, value] })
  const judged = validateClusterConfig(configOf(objects))
  assert.ok('value' in judged, JSON.stringify(judged))
  const { value: config } = judged
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: '1' }
  const place = { name: release, namespace, owner, revision: '' }
  const made = clusterWorkloads(config, namespace).flatMap(({ workload }) =>
    workloadObjects(workload, makePodShape(config, workload.service), place),
  )
  return [...objects, ...made]
}

const matches = (selector: Labels, labels: Labels = {}) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value)

/** Returns the one Deployment whose pods the labels select. */
function selectedPods(objects: readonly KubeObject[], selector: Labels) {
  const selected = objects
    .filter(({ kind }) => kind === 'Deployment')
    .map(({ metadata, spec }) => ({ name: metadata.name, ...(spec as { readonly template: PodTemplate }) }))
    .filter(({ template }) => matches(selector, template.metadata.labels))
  const [one] = selected
  assert.ok(one !== undefined && selected.length === 1, JSON.stringify(selector))
  const ports = one.template.spec.containers.flatMap(container => container.ports ?? [])
  return { name: one.name, ports: ports.map(({ name }) => name) }
}

describe('with every service', { skip: missingHelm() }, () => {
  const deployments = ['tollway-broker', 'tollway-operator', 'tollway-payments', 'tollway-ratelimit']

  it('each PodMonitor selects the pods of one Deployment, by a port that they have', () => {
    const objects = objectsOfRelease('monitoring.podMonitor.enabled=true')
    const monitors = objects.filter(({ kind }) => kind === 'PodMonitor')
    const selected = monitors.map(({ metadata, spec }) => {
      const { selector, podMetricsEndpoints: [endpoint] = [] } = spec as Monitor
      const pods = selectedPods(objects, selector.matchLabels)
      assert.equal(pods.name, metadata.name)
      assert.ok(pods.ports.includes(`${endpoint?.port}`), pods.name)
      return pods.name
    })
    assert.deepEqual(selected.sort(), deployments)
  })

  it('each ServiceMonitor finds its port at one Service, which selects the pods of one Deployment', () => {
    const objects = objectsOfRelease('monitoring.serviceMonitor.enabled=true')
    const monitors = objects.filter(({ kind }) => kind === 'ServiceMonitor')
    const selected = monitors.map(({ metadata, spec }) => {
      const { selector, endpoints: [endpoint] = [] } = spec as Monitor
      const services = objects
        .filter(({ kind }) => kind === 'Service')
        .filter(object => matches(selector.matchLabels, object.metadata.labels))
        .map(service => service['spec'] as { readonly selector: Labels; readonly ports: readonly Port[] })
        .filter(({ ports }) => ports.some(({ name }) => name === endpoint?.port))
      const [service] = services
      assert.ok(service !== undefined && services.length === 1, metadata.name)
      const pods = selectedPods(objects, service.selector)
      assert.equal(pods.name, metadata.name)
      const target = service.ports.find(({ name }) => name === endpoint?.port)?.targetPort
      assert.ok(pods.ports.includes(`${target}`), `${metadata.name}: ${target}`)
      return pods.name
    })
    assert.deepEqual(selected.sort(), deployments)
  })
})
