import type { ResourceList } from '../../../api/shapes.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConditionList, ReadyState } from '../parts/conditions.ts'
import { EditLink } from '../parts/edit-link.ts'
import { Empty, howToListAll } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Resource = ResourceList['items'][number]

const columns: readonly Column<Resource>[] = [
  { label: 'Resource', cell: ({ namespace, name }) => displayText(`${namespace}/${name}`) },
  { label: 'Kind', cell: ({ kind }) => kind },
  { label: 'State', cell: ({ conditions }) => html`<${ReadyState} conditions=${conditions} />` },
  { label: 'Pods', cell: ({ enforced }) => enforced || '–' },
  {
    label: 'Conditions',
    kind: 'action',
    cell: ({ conditions }) => html`<${ConditionList} conditions=${conditions} />`,
  },
  {
    label: 'Action',
    kind: 'action',
    cell: ({ kind, namespace, name }) =>
      kind === 'RateLimitConfig' && html`<${EditLink} ...${{ namespace, name }} />`,
  },
]

interface ResourceTableProps {
  readonly resources: ResourceList['items']
  /** Whether there are more resources than those in `resources`. */
  readonly hasMore: boolean
  readonly isKnown: boolean
}

export function ResourcesTable({ resources, hasMore, isKnown }: ResourceTableProps) {
  if (!isKnown) return null
  if (resources.length === 0)
    return html`<${Empty}>There are no resources. Apply one: its conditions are shown here.<//>`
  const rowKey = ({ kind, namespace, name }: Resource) => `${kind}/${namespace}/${name}`
  return showTable({
    title: 'Resources',
    items: resources,
    rowKey,
    columns,
    hasMore,
    moreHint: howToListAll(),
  })
}
