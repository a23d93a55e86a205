import type { ResourceList } from '../../../api/shapes.ts'
import { displayText } from '../data/format.ts'
import { html } from '../data/html.ts'
import { State } from '../parts/notes.ts'
import { type Column, showTable } from './data-table.ts'

type Feed = ResourceList['feeds'][number]

interface EnforcedVersion {
  readonly kind: string
  readonly version: string
  readonly pods: number
  readonly isPublished: boolean
}

const columns: readonly Column<EnforcedVersion>[] = [
  { label: 'Kind', cell: ({ kind }) => kind },
  {
    label: 'Version',
    cell: ({ version }) => html`<code>${displayText(version.slice(0, 12)) || 'none'}</code>`,
  },
  {
    label: 'State',
    cell: ({ isPublished }) =>
      isPublished ? html`<${State} tone="good">published<//>` : html`<${State} tone="warning">behind<//>`,
  },
  { label: 'Pods', kind: 'number', cell: ({ pods }) => pods },
]

export function FeedVersions({ feeds }: { readonly feeds: readonly Feed[] }) {
  const items = feeds.flatMap(({ kind, version: published, versions }) =>
    versions.map(({ version, pods }) => ({ kind, version, pods, isPublished: version === published })),
  )
  if (items.length === 0) return null
  const rowKey = ({ kind, version }: EnforcedVersion) => `${kind} ${version}`
  return showTable({ title: 'Pods by version', items, rowKey, columns })
}
