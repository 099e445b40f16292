// Shows the token once, for a cookie that stands for it.
const form = document.getElementById("show");
const field = document.getElementById("token");
const verdict = document.getElementById("verdict");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  verdict.textContent = "";
  try {
    const answer = await fetch("api/session", { headers: { Authorization: `Bearer ${field.value}` } });
    if (answer.ok) {
      location.reload();
      return;
    }
    verdict.textContent = answer.status === 401 ? "That is not the token." : `The page answered ${answer.status}.`;
  } catch {
    verdict.textContent = "The page cannot be reached.";
  }
  field.select();
});
field.focus();
