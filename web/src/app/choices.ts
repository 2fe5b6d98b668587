import { useNavigate, useSearch } from '@tanstack/react-router'
import type { SortingState } from '@tanstack/react-table'
import { useCallback } from 'react'

/** What the address of a page says, and how to change it; an empty choice leaves the address. */
export interface Choices {
  text: (key: string, otherwise?: string) => string
  many: (key: string) => string[]
  /** One of some words; the first of them where the address says something else. */
  word: <Word extends string>(key: string, words: readonly [Word, ...Word[]]) => Word
  /** Change some choices and keep the others; `quietly` makes no step to go back to (typing). */
  choose: (changes: Record<string, unknown>, quietly?: boolean) => void
}

type Search = Record<string, unknown>

/** One text of an address; the router reads `?agent=12` as a number. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

export function textsOf(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).map(textOf).filter((one) => one !== '')
}

/** The choices of the view, which live in the address alone. */
export function useChoices(): Choices {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const choose = useCallback<Choices['choose']>(
    (changes, quietly = false) => {
      const search = (before: Search) => without({ ...before, ...changes })
      void navigate({ to: '.', search, replace: quietly, resetScroll: false })
    },
    [navigate],
  )
  return {
    text: (key, otherwise = '') => textOf(search[key]) || otherwise,
    many: (key) => textsOf(search[key]),
    word: (key, words) => words.find((one) => one === textOf(search[key])) ?? words[0],
    choose,
  }
}

function without(search: Search): Search {
  const isEmpty = (value: unknown) =>
    value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
  return Object.fromEntries(Object.entries(search).filter(([, value]) => !isEmpty(value)))
}

/** The order of a table as the address has it: `name`, or `-name` from the end. */
export function useSorting(
  { text, choose }: Choices,
  otherwise = '',
): { sorting: SortingState; onSorting: (next: SortingState) => void } {
  const kept = text('sort', otherwise)
  const sorting = kept === '' ? [] : [{ id: kept.replace(/^-/, ''), desc: kept.startsWith('-') }]
  const onSorting = (next: SortingState) => choose({ sort: next.map((one) => `${one.desc ? '-' : ''}${one.id}`)[0] })
  return { sorting, onSorting }
}
