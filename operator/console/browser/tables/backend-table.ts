import type { ResourceList } from '../../../api/shapes.ts'
import { abnormalConditions } from '../data/abnormal-conditions.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Resource = ResourceList['items'][number]
type Pod = ResourceList['pods'][number]

interface Backend {
  readonly service: string
  readonly name: string
  readonly problem: string
}

/** The services whose resources get the condition Degraded when the backend of the service fails. */
const degradedServices = [
  { kind: 'AnimationStreamRoute', service: 'Brokers', name: 'streams' },
  { kind: 'Merchant', service: 'Payments service', name: 'database' },
]

const columns: readonly Column<Backend>[] = [
  { label: 'Service', cell: ({ service }) => service },
  { label: 'Backend', cell: ({ name }) => displayText(name) },
  {
    label: 'State',
    cell: ({ problem }) =>
      problem === '' ? html`<${State} tone="good">answers<//>` : html`<${State} tone="error">fails<//>`,
  },
  { label: 'Cause', cell: ({ problem }) => problem || '–' },
]

interface BackendTableProps {
  readonly resources: readonly Resource[]
  readonly pods: readonly Pod[]
}

export function BackendsTable({ resources, pods }: BackendTableProps) {
  const items = [...listPodBackends(pods), ...degradedServices.flatMap(each => readBackend(each, resources))]
  if (items.length === 0) return null
  const rowKey = ({ service, name }: Backend) => `${service} ${name}`
  return showTable({ title: 'Backends', items, rowKey, columns })
}

function listPodBackends(pods: readonly Pod[]): readonly Backend[] {
  return [...Map.groupBy(pods, ({ backend }) => backend)].map(([name, users]) => {
    const failing = users.filter(({ backendProblem }) => backendProblem !== '')
    const [first] = failing
    const where = `at ${failing.length} of ${users.length} pods`
    return {
      service: 'Rate limit service',
      name,
      problem: first === undefined ? '' : `${where}: ${first.backendProblem}`,
    }
  })
}

function readBackend(
  { kind, service, name }: (typeof degradedServices)[number],
  resources: readonly Resource[],
): readonly Backend[] {
  const some = resources.filter(resource => resource.kind === kind)
  if (some.length === 0) return []
  const degraded = some
    .flatMap(({ conditions }) => abnormalConditions(conditions))
    .find(({ type }) => type === 'Degraded')
  return [{ service, name, problem: degraded?.message ?? '' }]
}
