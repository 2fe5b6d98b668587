import { render, screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it } from 'vitest'
import { signIn, token } from '@/app/session'
import { SignInPage } from '@/pages/signin/SignInPage'

describe('signing in', () => {
  it('keeps the token for this tab alone, without blanks', async () => {
    render(<SignInPage />)
    expect(screen.queryByRole('alert')).toBeNull()
    await userEvent.type(screen.getByLabelText('Token'), ' secret ')
    await userEvent.click(screen.getByRole('button', { name: 'Sign in' }))
    expect(token()).toBe('secret')
    expect(localStorage.getItem('assay.token')).toBeNull()
  })

  it('keeps it in the browser when asked to', async () => {
    render(<SignInPage />)
    await userEvent.type(screen.getByLabelText('Token'), 'secret')
    await userEvent.click(screen.getByLabelText('Remember it in this browser'))
    await userEvent.click(screen.getByRole('button', { name: 'Sign in' }))
    expect(localStorage.getItem('assay.token')).toBe('secret')
  })

  it('says that a token was refused, until another is typed', async () => {
    signIn('old', false)
    render(<SignInPage />)
    expect(screen.getByRole('alert').textContent).toContain('does not know this token')
    expect(screen.getByLabelText('Token').getAttribute('aria-invalid')).toBe('true')
    await userEvent.type(screen.getByLabelText('Token'), 'n')
    expect(screen.queryByRole('alert')).toBeNull()
  })

  it('never shows the secret', async () => {
    render(<SignInPage />)
    expect(screen.getByLabelText('Token').getAttribute('type')).toBe('password')
  })
})
