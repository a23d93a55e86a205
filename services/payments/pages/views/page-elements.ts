/**
 * The part of a browser's document that the script of the pages uses. The types of the DOM library would
 * declare browser globals in every file of the service.
 */
export interface PageDocument {
  querySelector(selector: string): PageElement | null
  querySelectorAll(selector: string): Iterable<PageElement>
}

export interface PageElement {
  readonly id: string
  readonly selectionStart: number | null
  value: string
  hidden: boolean
  textContent: string | null
  querySelector(selector: string): PageElement | null
  getAttribute(name: string): string | null
  setAttribute(name: string, value: string): void
  removeAttribute(name: string): void
  addEventListener(type: string, listen: (event: PageEvent) => void): void
  setSelectionRange(start: number, end: number): void
  focus(): void
}

interface PageEvent {
  readonly defaultPrevented: boolean
  /** The kind of an input event, such as `insertText` or `deleteContentBackward`. */
  readonly inputType?: string
  /** Whether the page of a pageshow event was restored from the cache of the browser. */
  readonly persisted?: boolean
  /** The button of a submit event. */
  readonly submitter?: PageElement | null
  preventDefault(): void
}

export interface PageWindow {
  readonly location: {
    readonly href: string
    assign(address: string): void
    replace(address: string): void
  }
  readonly performance: { getEntriesByType(type: string): readonly { readonly type?: string }[] }
  setTimeout(run: () => void, delayMs: number): number
  clearTimeout(timer: number): void
  addEventListener(type: string, listen: (event: PageEvent) => void): void
}
