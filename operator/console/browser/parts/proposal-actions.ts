import { useSignal } from '@preact/signals'
import type { ApplyAnswer, ApplyBody } from '../../../api/manifest-shapes.ts'
import type { RightList, WhatIfAnswer } from '../../../api/shapes.ts'
import { parseYamlDocument } from '../../../yaml.ts'
import { CallError, postJson } from '../calls/api.ts'
import { hasRight, isLoggedIn } from '../calls/session.ts'
import type { Draft } from '../calls/use-draft.ts'
import { usePoll } from '../calls/use-poll.ts'
import { diffLines } from '../data/diff-lines.ts'
import { displayText, formatChange, formatCount } from '../data/format.ts'
import { html } from '../data/html.ts'
import { ConfirmDialog } from './confirm-dialog.ts'
import { ErrorNote, FieldList } from './notes.ts'

/** A change that the API has checked and the user has not confirmed yet. */
interface CheckedChange {
  readonly body: ApplyBody
  readonly checked: ApplyAnswer
  /** The texts of the API server about fields of other field managers, which the change would take over. */
  readonly conflicts: readonly string[]
}

/** The longest text of a conflict, which names a field manager and the path of a field. */
const maxConflict = 1_000

/** The API caches the rights of a user for 10 s. */
const rightsMs = 10_000

interface ProposalActionsProps {
  readonly draft: Draft
  readonly isWrong: boolean
  /** The answer of the last replay; undefined if there is none. */
  readonly effect: WhatIfAnswer | undefined
  readonly onReadAgain: () => void
  readonly onApplied: (text: string, answer: ApplyAnswer) => void
}

/** Apply requires the right in the namespace of the text. */
export function ProposalActions({ draft, isWrong, effect, onReadAgain, onApplied }: ProposalActionsProps) {
  const { text, source } = draft
  const namespace = proposedName(text).namespace
  const { answer: rights } = usePoll<RightList>('/rights', { namespace }, rightsMs)
  const pending = useSignal<CheckedChange | undefined>(undefined)
  const problem = useSignal<unknown>(undefined)
  const message = useSignal('')

  async function attempt(task: () => Promise<void>): Promise<void> {
    problem.value = undefined
    message.value = ''
    pending.value = undefined
    try {
      await task()
    } catch (error) {
      problem.value = error
    }
  }
  const check = () =>
    attempt(async () => {
      pending.value = await checkChange(buildBody(draft))
    })
  const apply = ({ body }: CheckedChange) =>
    attempt(async () => {
      const answer = await postJson<ApplyAnswer>('/apply', body)
      onApplied(text, answer)
      message.value = `${describe(answer, 'is')}.`
    })
  const readAgain = () =>
    attempt(async () => {
      onReadAgain()
    })
  const copy = async () => {
    message.value = await copyText(text)
  }
  const cancel = () => {
    pending.value = undefined
  }

  const canApply = hasRight(rights, 'patch', 'ratelimitconfigs')
  const isApplicable = !isWrong && text.trim() !== ''
  const isEdited = source !== undefined && source.manifest !== text
  return html`<div class="actions">
    <p class="buttons">
      ${
        canApply &&
        html`<button type="button" class="primary" disabled=${!isApplicable} onClick=${check}>Apply</button>`
      }
      <button type="button" onClick=${copy}>Copy</button>
      ${source && html`<button type="button" onClick=${readAgain}>Read again</button>`}
      <span class="fine">${isEdited && 'Edited, not applied.'}</span>
    </p>
    <p role="status" class="done">${message.value}</p>
    ${isChanged(problem.value) ? html`<${ChangedNote} />` : html`<${ErrorNote} error=${problem.value} />`}
    ${
      pending.value &&
      html`<${Confirmation} ...${{ change: pending.value, before: source?.manifest ?? '', effect }}
        onConfirm=${apply} onCancel=${cancel} />`
    }
  </div>`
}

/** Reads the namespace and the name in a text, unvalidated: the API validates them. */
function proposedName(text: string): { readonly namespace: string; readonly name: unknown } {
  const read = parseYamlDocument(text)
  const { metadata } = (('value' in read && read.value) || {}) as { readonly metadata?: ProposedName }
  return { namespace: `${metadata?.namespace ?? 'default'}`, name: metadata?.name }
}

interface ProposedName {
  readonly namespace?: unknown
  readonly name?: unknown
}

/** The body has the version with which the draft began, unless the text names another resource now. */
function buildBody({ text, source }: Draft): ApplyBody {
  const read = parseYamlDocument(text)
  const resource = ('value' in read ? read.value : {}) as ApplyBody['resource']
  const { namespace, name } = proposedName(text)
  const isSame = source?.namespace === namespace && source.name === name
  return { resource, manifest: text, ...(isSame && { version: source.version }) }
}

async function copyText(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text)
    return 'Copied.'
  } catch {
    return 'The browser does not allow it: select the text and copy it.'
  }
}

const isChanged = (problem: unknown) => problem instanceof CallError && problem.code === 'changed'

const ChangedNote = () => html`<p class="note warning" role="alert">
  The resource was changed after you read it. Read it again to continue with its current text. Copy your text
  first, because it is replaced.
</p>`

async function checkChange(body: ApplyBody): Promise<CheckedChange> {
  const check = (checked: ApplyBody) => postJson<ApplyAnswer>('/apply', { ...checked, dryRun: true })
  try {
    return { body, checked: await check(body), conflicts: [] }
  } catch (error) {
    // Only conflicts with other field managers are solved by force. Without a login, on one machine, a
    // conflict concerns the file.
    if (!(error instanceof CallError) || error.status !== 409 || isChanged(error) || !isLoggedIn.value)
      throw error
    const forced = { ...body, force: true }
    return { body: forced, checked: await check(forced), conflicts: error.message.split('\n') }
  }
}

function describe({ namespace, name, created, origin }: ApplyAnswer, verb: 'is' | 'will be'): string {
  const place = origin === 'cluster' ? 'in the cluster' : `in the file ${displayText(origin)}`
  return `${displayText(`${namespace}/${name}`)} ${verb} ${created ? 'created' : 'changed'} ${place}`
}

interface ConfirmationProps {
  readonly change: CheckedChange
  /** The manifest with which the draft began; empty for a new resource. */
  readonly before: string
  readonly effect: WhatIfAnswer | undefined
  readonly onConfirm: (change: CheckedChange) => void
  readonly onCancel: () => void
}

function Confirmation({ change, before, effect, onConfirm, onCancel }: ConfirmationProps) {
  const { body, checked, conflicts } = change
  const takesOver = conflicts.length > 0
  const action = takesOver ? 'Take over and apply' : 'Apply'
  const props = { title: 'Apply the text?', action, onCancel, onConfirm: () => onConfirm(change) }
  return html`<${ConfirmDialog} ...${props}>
    <p>${describe(checked, 'will be')}.</p>
    <${TextDiff} before=${before} after=${body.manifest ?? ''} />
    ${effect && html`<p>${describeEffect(effect)}</p>`}
    <${FieldList} style="mistakes doubts" label="warning: " items=${checked.warnings} />
    ${
      takesOver &&
      html`<p>Another manager has applied these fields. You take them over:</p>
        <ul>${conflicts.map(line => html`<li>${displayText(line, maxConflict)}</li>`)}</ul>`
    }
  <//>`
}

function describeEffect({ rules }: WhatIfAnswer): string {
  const sum = (of: (rule: WhatIfAnswer['rules'][number]) => number) =>
    rules.reduce((total, rule) => total + of(rule), 0)
  const [now, after] = [sum(({ now }) => now.refused), sum(({ proposed }) => proposed.refused)]
  const hits = sum(({ now }) => now.allowed + now.refused)
  return (
    `Of ${formatCount(hits)} recorded hits, ${formatCount(now)} are rejected now, and ${formatCount(after)} after ` +
    `the change (${formatChange(after - now)}).`
  )
}

interface TextDiffProps {
  readonly before: string
  readonly after: string
}

const maxShown = 400

function TextDiff({ before, after }: TextDiffProps) {
  const lines = diffLines(before, after)
  if (lines.length === 0) return html`<p class="fine">The text is the same.</p>`
  return html`<pre class="diff" tabindex="0" aria-label="Changes">${lines
    .slice(0, maxShown)
    .map(line => html`<span class=${diffStyle(line)}>${displayText(line, maxLine)}${'\n'}</span>`)}${
    lines.length > maxShown && `… ${lines.length - maxShown} more lines`
  }</pre>`
}

const maxLine = 400

const diffStyle = (line: string) =>
  line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : line.startsWith('@@') ? 'fine' : ''
