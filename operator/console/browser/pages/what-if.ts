import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ResourceList } from '../../../api/shapes.ts'
import { CallError } from '../calls/api.ts'
import { inScope } from '../calls/session.ts'
import { type ResourceKey, useDraft } from '../calls/use-draft.ts'
import { countListed, usePages } from '../calls/use-pages.ts'
import { type Proposal, useWhatIf, type WhatIfReplay } from '../calls/use-what-if.ts'
import { displayText, findHiddenCharacters, formatAge } from '../data/format.ts'
import { html } from '../data/html.ts'
import { linkTo, route } from '../data/route.ts'
import { Choice } from '../parts/choice.ts'
import { Editor } from '../parts/editor.ts'
import { Empty, ErrorNote, FieldList, Loading } from '../parts/notes.ts'
import { ProposalActions } from '../parts/proposal-actions.ts'
import { BeforeAfter } from '../tables/before-after.ts'

const template = `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata:
  namespace: shop
  name: checkout
spec:
  domain: checkout
  descriptors:
    - key: user
      rateLimit: {unit: minute, requestsPerUnit: 3}
`

const slowMs = 3_000
const kind = { kind: 'RateLimitConfig' }
const newResource = ''

export function WhatIfPage() {
  const { answer, problem } = usePages<ResourceList>('/resources', { ...kind, ...inScope.value }, slowMs)
  const { namespace = '', name } = route.value.parameters
  const named = name === undefined ? undefined : { namespace, name }
  const resource = named ?? (route.value.parameters['new'] === undefined ? answer?.items[0] : undefined)
  const isKnown = resource !== undefined || answer !== undefined || problem !== undefined
  const chosen = resource === undefined ? newResource : toTitle(resource)
  const options = [
    ...(answer?.items ?? []).map(item => ({ value: toTitle(item) })),
    { value: newResource, text: 'a new resource' },
  ]
  const choose = (value: string) => {
    const next = answer?.items.find(item => toTitle(item) === value)
    location.hash = linkTo('what-if', next ? { namespace: next.namespace, name: next.name } : { new: '1' })
  }
  return html`
    <p>
      Edit a RateLimitConfig. The calls that the pods have recorded are replayed with it; nothing is changed
      before you apply it.
    </p>
    <${ErrorNote} error=${problem} />
    ${
      isKnown
        ? html`<${Choice} id="resource" label="Resource" ...${{ options, chosen }} onChoose=${choose}
              listed=${answer && countListed(answer)} />
            <${WhatIf} key=${chosen} resource=${resource} />`
        : html`<${Loading} />`
    }
  `
}

const toTitle = ({ namespace, name }: ResourceKey) => `${namespace}/${name}`

function WhatIf({ resource }: { readonly resource: ResourceKey | undefined }) {
  const open = useDraft(resource, template)
  const { draft } = open
  const { proposal, ...replays } = useWhatIf(draft?.text ?? '')
  const isReading = draft === undefined && open.problem === undefined
  return html`
    <${ErrorNote} error=${open.problem} />
    ${isReading && html`<${Empty}>Reading ${displayText(resource ? toTitle(resource) : '')} …<//>`}
    ${
      draft &&
      html`<div class="split even">
        <section class="card" aria-label="Proposal">
          <${Editor} label="RateLimitConfig in YAML" text=${draft.text} describedBy="mistakes"
            wrongLines=${findWrongLines(proposal)} onInput=${open.edit} />
          <${Mistakes} proposal=${proposal} />
          <${HiddenMarks} text=${draft.text} />
          <${ProposalActions} draft=${draft} isWrong=${proposal.problems.length > 0} effect=${proposal.answer}
            onReadAgain=${open.readAgain} onApplied=${open.markApplied} />
        </section>
        <${ReplayCard} proposal=${proposal} ...${replays} />
      </div>`
    }
  `
}

const findWrongLines = ({ problems }: Proposal) => new Set(problems.flatMap(({ line }) => line ?? []))

function HiddenMarks({ text }: { readonly text: string }) {
  const found = findHiddenCharacters(text)
  if (found === undefined) return null
  return html`<p class="note warning">
    Line ${found.line} has hidden characters that change how it reads: <code>${found.codes}</code>
  </p>`
}

function ReplayCard({ proposal, again, cancel }: WhatIfReplay) {
  const { replay, answer } = proposal
  const canRepeat = replay.state !== 'running' && replay.state !== 'none'
  return html`<section class="card" aria-labelledby="picture">
    <div class="heading">
      <h2 id="picture">Before and after</h2>
      ${canRepeat && html`<button type="button" onClick=${again}>Replay again</button>`}
    </div>
    ${replay.state === 'running' && html`<${Running} beganMs=${replay.beganMs} onCancel=${cancel} />`}
    ${replay.state === 'cancelled' && html`<${Empty}>The replay is cancelled.<//>`}
    ${replay.state === 'failed' && html`<${ReplayError} error=${replay.error} />`}
    ${
      replay.state === 'none' &&
      html`<${Empty}>Correct the text: the effect of a valid resource is shown here.<//>`
    }
    ${answer && html`<${BeforeAfter} answer=${answer} />`}
  </section>`
}

interface RunningProps {
  readonly beganMs: number
  readonly onCancel: () => void
}

const tickMs = 1_000

/** Shows the duration of a replay. Screen readers announce it only once. */
function Running({ beganMs, onCancel }: RunningProps) {
  const nowMs = useSignal(performance.now())
  useEffect(() => {
    const timer = setInterval(() => {
      nowMs.value = performance.now()
    }, tickMs)
    return () => clearInterval(timer)
  }, [])
  const age = formatAge(nowMs.value - beganMs)
  return html`<p class="line running">
    <span role="status">Replaying the recorded calls …,</span> <span>${age}</span>
    <button type="button" onClick=${onCancel}>Cancel</button>
  </p>`
}

function ReplayError({ error }: { readonly error: unknown }) {
  const isOff = error instanceof CallError && error.code === 'switched-off'
  return html`
    <${ErrorNote} error=${error} />
    ${isOff && html`<p class="fine">${howToRecord}</p>`}
    <p class="fine">A valid resource can be applied without a replay.</p>
  `
}

const howToRecord =
  'Start the rate limit service with DECISION_RECORDING_BYTES=16777216 or without this setting: ' +
  'its pods then record their calls, and this page replays them.'

function Mistakes({ proposal }: { readonly proposal: Proposal }) {
  const { problems, warnings, isValid } = proposal
  return html`<div id="mistakes" role="status">
    <${FieldList} style="mistakes" items=${problems} />
    ${isValid && html`<p class="done">The resource is valid.</p>`}
    <${FieldList} style="mistakes doubts" label="warning: " items=${warnings} />
  </div>`
}
